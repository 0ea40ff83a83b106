// Text widths by canvas, remembered: a tree asks for the same labels again and again.

const BOLD = 600;

export function textMeasure(family) {
  const context = document.createElement("canvas").getContext("2d");
  const widths = new Map();
  const measure = (text, size, bold = false) => {
    const font = `${bold ? BOLD : 400} ${size}px ${family}`;
    const key = `${font}|${text}`;
    let width = widths.get(key);
    if (width === undefined) {
      if (widths.size > 20000) widths.clear();
      context.font = font;
      width = context.measureText(text).width;
      widths.set(key, width);
    }
    return width;
  };
  measure.forget = () => widths.clear();
  return measure;
}
