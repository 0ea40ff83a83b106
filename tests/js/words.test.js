import assert from "node:assert/strict";
import { test } from "node:test";

import { cardLines } from "../../eagle3_viz/component/assets/card.js";
import { probability, shorten } from "../../eagle3_viz/component/assets/format.js";
import { noticeFor } from "../../eagle3_viz/component/assets/notice.js";
import { barOf, barPaths, barPitch, cycleAt, describeCycle } from "../../eagle3_viz/component/assets/scrubber.js";
import { luminance, parseColor, themeOf } from "../../eagle3_viz/component/assets/theme.js";
import { runs } from "../../eagle3_viz/component/assets/tokens.js";

test("luminance is 0 for black and 1 for white", () => {
  assert.equal(luminance([0, 0, 0]), 0);
  assert.ok(Math.abs(luminance([255, 255, 255]) - 1) < 1e-12);
});

test("colours are read in the forms a theme may use", () => {
  assert.deepEqual(parseColor("#fff"), [255, 255, 255]);
  assert.deepEqual(parseColor(" #0e1117 "), [14, 17, 23]);
  assert.deepEqual(parseColor("rgb(14, 17, 23)"), [14, 17, 23]);
  assert.equal(parseColor("hotpink"), null);
});

test("the page's background decides the theme", () => {
  assert.equal(themeOf("#0e1117"), "dark");
  assert.equal(themeOf("rgb(255, 255, 255)"), "light");
  assert.equal(themeOf(""), "light");
});

test("probabilities keep three decimals and small ones their magnitude", () => {
  assert.equal(probability(0.7254), "0.725");
  assert.equal(probability(0.000123), "1.2e-4");
  assert.equal(probability(0), "0.000");
  assert.equal(probability(null), "–");
});

test("a label is never cut inside a character", () => {
  assert.equal(shorten("🙂🙂🙂", 2), "🙂🙂…");
  assert.equal(shorten("ab", 2), "ab");
});

test("blanks are marked and a newline breaks the line", () => {
  assert.deepEqual(runs("·a↵"), [
    { part: "·", blank: true, breaks: false },
    { part: "a", blank: false, breaks: false },
    { part: "↵", blank: true, breaks: true },
  ]);
});

test("bars get narrower only as far as the cycles need", () => {
  assert.equal(barPitch(10, 1120), 16);
  assert.ok(barPitch(200, 1120) * 200 <= 1120);
  assert.ok(Math.abs(barPitch(3000, 1120) * 3000 - 1120) < 1e-9);
});

test("cycles that have not arrived leave a gap between bars of finite size", () => {
  const cycles = [{ origins: [1, 2], tokens: [4, 5] }];
  cycles[4] = { origins: [1, 1, 2], tokens: [4, 5, 6] };
  const drawn = Object.values(barPaths({ cycles }, 16)).join("");
  assert.equal(drawn.match(/M/g).length, 4);
  assert.doesNotMatch(drawn, /NaN|Infinity/);
});

test("a pointer outside the bars picks the first or the last cycle", () => {
  assert.equal(cycleAt(-5, 10, 30), 0);
  assert.equal(cycleAt(305, 10, 30), 29);
  assert.equal(cycleAt(25, 10, 30), 2);
});

test("a bar is the accepted drafts and a cap for the target's own token", () => {
  assert.deepEqual(barOf({ origins: [1, 1, 2] }), { accepted: 2, cap: "recovered" });
  assert.deepEqual(barOf({ origins: [3] }), { accepted: 0, cap: "bonus" });
  assert.deepEqual(barOf({ origins: [0] }), { accepted: 0, cap: "plain" });
  assert.deepEqual(barOf({ origins: [1, 1] }), { accepted: 2, cap: null });
  assert.equal(barOf(undefined), null);
});

test("the scrubber says which cycle it stands on", () => {
  const store = { cycles: [1, 2, 3], meta: { method: "eagle3" }, hover: () => "·blue" };
  const cycle = { i: 1, accepted: 1, origins: [1, 2], tokens: [4, 5], cut: false, ms: 26.13 };
  assert.equal(describeCycle(cycle, store), "cycle 2 of 3 · 1 accepted · recovered ·blue · 26.1 ms");
});

test("a cut cycle says what it accepted and how much of it was kept", () => {
  const store = { cycles: [1], meta: { method: "eagle3" }, hover: () => "·blue" };
  const cycle = { i: 0, accepted: 3, origins: [1], tokens: [4], cut: true, finish: "length", ms: 20 };
  assert.equal(describeCycle(cycle, store), "cycle 1 of 1 · 3 accepted, 1 kept (length) · 20.0 ms");
});

test("a missing tree is explained in one sentence", () => {
  assert.match(noticeFor({ method: "ar" }, undefined), /^Autoregression: .* no draft tree\.$/);
  assert.match(noticeFor({ method: "eagle3" }, { nodes: null }), /^Recording was off/);
  assert.equal(noticeFor({ method: "eagle3" }, { nodes: {} }), "");
  assert.match(noticeFor({ method: "eagle3", status: "running" }, undefined), /yet/);
  assert.match(noticeFor({ method: "eagle3", status: "finished" }, undefined), /ended at prefill/);
});

const node = { token: 7, state: "rejected", p: 0.2, q: 0.4, warped: null, pRank: 2, qRank: 0 };

test("a card leaves out what does not exist for its node", () => {
  const names = (n) => cardLines(n).flat().map(([name]) => name);
  const untested = ["p target", "q draft", "rank in p", "rank in q", "id"];
  assert.deepEqual(names({ ...node, test: null }), untested);
  const greedy = names({ ...node, test: { p: 0.2, accept: 0, draw: null } });
  assert.ok(greedy.includes("accept probability") && !greedy.includes("draw"));
});

test("a card shows p when tested only where refused siblings changed it", () => {
  const has = (n) => cardLines(n).flat().some(([name]) => name === "p when tested");
  assert.ok(!has({ ...node, test: { p: 0.2, accept: 0.2, draw: 0.9 } }));
  assert.ok(has({ ...node, test: { p: 0.5, accept: 0.5, draw: 0.9 } }));
});

test("ranks are counted from one", () => {
  const ranks = Object.fromEntries(cardLines({ ...node, test: null }).flat());
  assert.equal(ranks["rank in p"], "3");
  assert.equal(ranks["rank in q"], "1");
});
