// Numbers and token labels as the screen words them.

export const known = (value) => value !== null && value !== undefined;

export function probability(value) {
  if (!known(value)) return "–";
  if (value !== 0 && value < 0.001) return value.toExponential(1);
  return value.toFixed(3);
}

// Codepoints, not UTF-16 units: an emoji is never cut in half.
export function shorten(text, limit) {
  const points = [...text];
  return points.length <= limit ? text : points.slice(0, limit).join("") + "…";
}
