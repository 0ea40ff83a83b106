import assert from "node:assert/strict";
import { test } from "node:test";

import { CLOSEST, FARTHEST, fitted, held, panned, revealing, zoomed } from "../../eagle3_viz/component/assets/viewport.js";

const area = { width: 800, height: 400 };
const drawnAt = (view, point) => ({ x: point.x * view.scale + view.x, y: point.y * view.scale + view.y });
const near = (a, b) => Math.abs(a - b) < 1e-9;

test("a tree smaller than its area is neither enlarged nor moved sideways", () => {
  assert.deepEqual(fitted({ width: 300, height: 400 }, area), { x: 0, y: 0, scale: 1 });
});

test("a larger tree is shrunk until all of it is in sight", () => {
  const content = { width: 1000, height: 500 };
  const view = fitted(content, area);
  assert.ok(near(view.scale, 0.8));
  assert.ok(drawnAt(view, { x: 1000, y: 500 }).x <= area.width + 1e-9);
  assert.ok(drawnAt(view, { x: 1000, y: 500 }).y <= area.height + 1e-9);
});

test("fitting stops where labels could not be read", () => {
  assert.ok(fitted({ width: 9000, height: 9000 }, area).scale > 0.6);
});

test("an area may ask for larger labels than the smallest that can be read", () => {
  const content = { width: 900, height: 400 };
  assert.equal(fitted(content, { width: 360, height: 400 }, 0.8).scale, 0.8);
  assert.ok(fitted(content, { width: 360, height: 400 }).scale < 0.8);
});

test("what lies under the pointer stays there while zooming, in and out", () => {
  const view = { x: -130, y: 40, scale: 0.9 };
  for (const factor of [0.5, 0.8, 1.25, 2]) {
    const point = { x: (333 - view.x) / view.scale, y: (222 - view.y) / view.scale };
    const after = drawnAt(zoomed(view, factor, 333, 222), point);
    assert.ok(near(after.x, 333) && near(after.y, 222));
  }
});

test("zoom ends at its limits and the point still stays", () => {
  const view = { x: 10, y: 10, scale: 1 };
  assert.equal(zoomed(view, 1000, 100, 100).scale, CLOSEST);
  assert.equal(zoomed(view, 0.0001, 100, 100).scale, FARTHEST);
  const far = zoomed(view, 0.0001, 100, 100);
  assert.ok(near(drawnAt(far, { x: 90, y: 90 }).x, 100));
});

test("zooming in and out again leads back", () => {
  const view = { x: -20, y: 7, scale: 1.1 };
  const back = zoomed(zoomed(view, 1.25, 50, 60), 1 / 1.25, 50, 60);
  for (const key of ["x", "y", "scale"]) assert.ok(near(back[key], view[key]));
});

test("however far the tree is pushed, some of it stays in sight", () => {
  const content = { width: 600, height: 300 };
  for (const [dx, dy] of [[1e6, 0], [-1e6, 0], [0, 1e6], [0, -1e6]]) {
    const view = held(panned({ x: 0, y: 0, scale: 1 }, dx, dy), content, area);
    const from = drawnAt(view, { x: 0, y: 0 });
    const to = drawnAt(view, { x: 600, y: 300 });
    assert.ok(from.x < area.width && to.x > 0 && from.y < area.height && to.y > 0);
  }
});

test("a node in sight moves nothing, one out of sight comes just inside", () => {
  const view = { x: 0, y: 0, scale: 1 };
  const inside = { left: 100, top: 100, right: 160, bottom: 130 };
  assert.deepEqual(revealing(view, inside, area), view);
  for (const box of [
    { left: 900, top: 100, right: 960, bottom: 130 },
    { left: -90, top: 100, right: -30, bottom: 130 },
    { left: 100, top: 700, right: 160, bottom: 730 },
    { left: 100, top: -80, right: 160, bottom: -50 },
  ]) {
    const moved = revealing(view, box, area);
    const [from, to] = [drawnAt(moved, { x: box.left, y: box.top }), drawnAt(moved, { x: box.right, y: box.bottom })];
    assert.ok(from.x >= 0 && from.y >= 0 && to.x <= area.width && to.y <= area.height);
    assert.equal(moved.scale, 1);
  }
});
