import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Feed, pause } from "../../eagle3_viz/component/assets/feed.js";

const HOUR = 3_600_000;
let log;
let answers; // what the server will say, in order; an Error is no answer

function feed(cost = 10) {
  return new Feed({
    ask: async (address) => {
      log.push(`ask ${address}`);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer;
    },
    take: async (payload) => {
      log.push(`draw ${payload.n}`);
      return cost;
    },
    turn: (still) => log.push(`still ${still}`),
    fail: (error) => log.push(`failed: ${error.message}`),
  });
}

const settled = () => new Promise((done) => setImmediate(done));

beforeEach(() => {
  log = [];
  answers = [];
});

test("drawing gets a small share of the time, and the page is never far behind", () => {
  assert.equal(pause(0), 300);
  assert.equal(pause(16), 400);
  assert.equal(pause(1000), 450);
});

test("a run that moves is asked for at once and again after each drawing", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  answers = [{ n: 1, still: false }, { n: 2, still: false }];
  feed(16).follow({ address: "a", still: false });
  await settled();
  assert.deepEqual(log, ["ask a", "draw 1"]);
  context.mock.timers.tick(399);
  await settled();
  assert.equal(log.length, 2);
  context.mock.timers.tick(1);
  await settled();
  assert.deepEqual(log.slice(2), ["ask a", "draw 2"]);
});

test("the end of the movement is drawn, told once, and asked for no more soon", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  answers = [{ n: 1, still: true }];
  feed().follow({ address: "a", still: false });
  await settled();
  context.mock.timers.tick(20_000);
  await settled();
  assert.deepEqual(log, ["ask a", "draw 1", "still true"]);
});

test("a still page only says now and then that it is there", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  answers = [{ n: 1, still: true }];
  feed().follow({ address: "a", still: true });
  await settled();
  assert.deepEqual(log, []);
  context.mock.timers.tick(30_000);
  await settled();
  assert.deepEqual(log, ["ask a"]);
});

test("an answer for what the page no longer follows is dropped", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  answers = [{ n: 1, still: false }, { n: 2, still: false }];
  const followed = feed();
  followed.follow({ address: "a", still: false });
  followed.follow({ address: "b", still: false });
  await settled();
  assert.deepEqual(log, ["ask a", "ask b", "draw 2"]);
});

test("the same place again does not ask twice", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  answers = [{ n: 1, still: false }];
  const followed = feed();
  followed.follow({ address: "a", still: false });
  followed.follow({ address: "a", still: false });
  await settled();
  assert.deepEqual(log, ["ask a", "draw 1"]);
});

test("nothing is asked once it is over", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  answers = [{ n: 1, still: false }];
  const followed = feed();
  followed.follow({ address: "a", still: false });
  await settled();
  followed.follow(null);
  context.mock.timers.tick(HOUR);
  await settled();
  assert.deepEqual(log, ["ask a", "draw 1"]);
});

test("a server that does not answer is said and asked again", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  answers = [new Error("gone"), { n: 1, still: false }];
  feed().follow({ address: "a", still: false });
  await settled();
  assert.deepEqual(log, ["ask a", "failed: gone"]);
  context.mock.timers.tick(2000);
  await settled();
  assert.deepEqual(log.slice(2), ["ask a", "draw 1"]);
});
