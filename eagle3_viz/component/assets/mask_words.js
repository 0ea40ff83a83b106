// Which node sees which in the verifying forward, and how that is said. Pure.

const LISTED = 8; // ancestors named in one sentence

// The ancestor mask (MATH.md 2), a row a node as query: `sees` are the nodes it attends to, itself
// last; the root stands at position n, the length of the prefix, a node at depth d at n + d.
export function maskRows(parents, prefixLength) {
  const rows = [];
  parents.forEach((parent, id) => {
    const above = parent < 0 ? [] : rows[parent].sees;
    rows.push({ id, position: prefixLength + above.length, sees: [...above, id] });
  });
  return rows;
}

function relation(rows, row, key) {
  if (row === key) return "itself";
  const { sees } = rows[row];
  if (sees.at(-2) === key) return "parent";
  if (sees.includes(key)) return "ancestor";
  return rows[key].sees.includes(row) ? "descendant" : "elsewhere";
}

const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// One cell in words. `key` is a node, PREFIX for the prefix, or null for the whole row; `name`
// words a node in the middle of a sentence.
export const PREFIX = -1;

export function maskWords(rows, row, key, { prefixLength, name }) {
  const { position, sees } = rows[row];
  const who = name(row);
  const subject = `${who[0].toUpperCase()}${who.slice(1)}, position ${position},`;
  const prefix = `the prefix (${counted(prefixLength, "row")})`;
  if (key === null) return `${subject} sees ${prefix}${ancestors(sees.slice(0, -1))} and itself.`;
  if (key === PREFIX) return `${subject} sees ${prefix}, as every node does.`;
  const other = name(key);
  return {
    itself: `${subject} sees itself.`,
    parent: `${subject} sees ${other}, its parent.`,
    ancestor: `${subject} sees ${other}, its ancestor.`,
    descendant: `${subject} does not see ${other}, which comes after it.`,
    elsewhere: `${subject} does not see ${other}, which is on another branch.`,
  }[relation(rows, row, key)];
}

function ancestors(ids) {
  if (ids.length === 0) return "";
  const shown = ids.slice(-LISTED).join(", ");
  return `, its ${counted(ids.length, "ancestor")} (${ids.length > LISTED ? "…, " : ""}${shown})`;
}
