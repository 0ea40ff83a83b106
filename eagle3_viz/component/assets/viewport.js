// Pan and zoom as arithmetic: a view is { x, y, scale }, content point c is drawn at c * scale + x.

export const CLOSEST = 3;
export const FARTHEST = 0.3;
const LEGIBLE = 0.62; // fitting shrinks no further: labels must stay readable
const HOLD = 48; // px of the content that panning always leaves in sight

const within = (value, low, high) => Math.min(Math.max(value, low), high);

// The whole content in the area where it stays legible, never enlarged.
export function fitted(content, area, legible = LEGIBLE) {
  const scale = Math.min(1, area.width / content.width, area.height / content.height);
  const used = Math.max(scale, legible);
  const y = Math.max((area.height - content.height * used) / 2, 0);
  return { x: 0, y, scale: used };
}

// Some of the content stays in sight, however far it is pushed.
export function held(view, content, area) {
  const hold = (at, length, room) => within(at, HOLD - length * view.scale, room - HOLD);
  return {
    scale: view.scale,
    x: hold(view.x, content.width, area.width),
    y: hold(view.y, content.height, area.height),
  };
}

export function panned(view, dx, dy) {
  return { ...view, x: view.x + dx, y: view.y + dy };
}

// The content under the point (x, y) of the area stays there.
export function zoomed(view, factor, x, y) {
  const scale = within(view.scale * factor, FARTHEST, CLOSEST);
  const ratio = scale / view.scale;
  return { scale, x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio };
}

// The least move that brings a box of the content into the area, `margin` px from its border.
export function revealing(view, box, area, margin = 12) {
  const move = (from, to, room) => {
    if (from < margin) return margin - from;
    return to > room - margin ? Math.max(room - margin - to, margin - from) : 0;
  };
  const [left, right] = [box.left, box.right].map((x) => x * view.scale + view.x);
  const [top, bottom] = [box.top, box.bottom].map((y) => y * view.scale + view.y);
  return panned(view, move(left, right, area.width), move(top, bottom, area.height));
}
