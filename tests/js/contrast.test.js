import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { luminance, parseColor } from "../../eagle3_viz/component/assets/theme.js";

const css = readFileSync(
  new URL("../../eagle3_viz/component/assets/base.css", import.meta.url),
  "utf8",
);

// The colours of one theme; the dark block overrides the light one.
function colors(theme) {
  const selectors = theme === "dark" ? [".live {", '.live[data-theme="dark"] {'] : [".live {"];
  const found = {};
  for (const selector of selectors) {
    const start = css.indexOf(selector);
    const block = css.slice(start, css.indexOf("}", start));
    for (const [, name, value] of block.matchAll(/--([a-z-]+):\s*(#[0-9a-f]{6})\b/g)) {
      found[name] = value;
    }
  }
  return found;
}

function contrast(a, b) {
  const [low, high] = [a, b].map((c) => luminance(parseColor(c))).sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

const PAPER = { light: "#ffffff", dark: "#0f1217" };

for (const theme of ["light", "dark"]) {
  const palette = colors(theme);

  test(`node labels have a contrast of at least 4.5 in the ${theme} theme`, () => {
    for (const state of ["accepted", "rejected", "target", "plain", "faint"]) {
      const ratio = contrast(palette[`${state}-ink`], palette[`${state}-fill`]);
      assert.ok(ratio >= 4.5, `${state}: ${ratio.toFixed(2)}`);
    }
  });

  test(`small words have a contrast of at least 4.5 in the ${theme} theme`, () => {
    assert.ok(contrast(palette.muted, PAPER[theme]) >= 4.5);
  });

  test(`outlines of decided nodes have a contrast of at least 3 in the ${theme} theme`, () => {
    for (const state of ["accepted", "rejected", "target", "plain"]) {
      const ratio = contrast(palette[state], PAPER[theme]);
      assert.ok(ratio >= 3, `${state}: ${ratio.toFixed(2)}`);
    }
  });
}
