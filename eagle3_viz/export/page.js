// The page around the view of one trace: its theme, its height, and the choice in its address.

const place = document.getElementById("view");
const button = document.getElementById("theme");
const trace = JSON.parse(document.getElementById("trace").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const LEAST_HEIGHT = 560; // px
const AROUND = 84; // px of the page above and below the view
let theme = dark.matches ? "dark" : "light";
let named = { ...chosen(), asked: 0 }; // what the address named last, and how often it did

// "#cycle=3&node=5", the cycle counted from 1.
function chosen() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (/^\d{1,7}$/.test(wanted.get(name)) ? Number(wanted.get(name)) : null);
  const cycle = number("cycle");
  return { cycle: cycle === null ? null : Math.max(cycle - 1, 0), node: number("node") };
}

function remember(name, selection) {
  if (name !== "selection" || !selection) return;
  const { cycle, node } = selection;
  const kept = node === null || node === undefined ? "" : `&node=${node}`;
  history.replaceState(null, "", `#cycle=${cycle + 1}${kept}`);
}

function show() {
  document.documentElement.dataset.theme = theme;
  button.textContent = theme === "dark" ? "light theme" : "dark theme";
  const height = Math.max(innerHeight - AROUND, LEAST_HEIGHT);
  const data = { packed: trace.packed, ...named, height };
  mount({ parentElement: place, data, setStateValue: remember });
}

function use(wanted) {
  theme = wanted;
  show();
}

button.hidden = false;
button.addEventListener("click", () => use(theme === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => use(dark.matches ? "dark" : "light"));
addEventListener("resize", show);
addEventListener("hashchange", () => {
  named = { ...chosen(), asked: named.asked + 1 };
  show();
});
show();
