// Handlers on the official JavaScript SDK, and what they leave behind for the test to read. They do
// what those in ../python/app.py do.

import { StepError, StepSemantics, withDurableExecution } from "@aws/durable-execution-sdk-js";
import { appendFileSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

// Adds a line with the time and this process; returns how often it was added before.
function ledger(...words) {
  const file = process.env.LEDGER;
  const line = words.join(" ");
  let known = [];
  try {
    known = readFileSync(file, "utf8").split("\n");
  } catch {
    // Nobody has written yet.
  }
  const before = known.filter((it) => it.split(" ").slice(2).join(" ") === line).length;
  appendFileSync(file, `${Date.now()} ${process.pid} ${line}\n`);
  return before;
}

const noted =
  (key, name, work = () => null) =>
  async () => {
    ledger(key, name, "begin");
    const result = await work();
    ledger(key, name, "end");
    return result;
  };

const soon = { retryStrategy: (_error, attempt) => ({ shouldRetry: attempt < 3, delay: { seconds: 1 } }) };

export const everything = withDurableExecution(async ({ key, crash: crashes }, context) => {
  const flaky = await context.step(
    "flaky",
    async () => {
      if (ledger(key, "flaky", "begin") === 0) throw new Error("the first attempt fails");
      ledger(key, "flaky", "end");
      return "in the end";
    },
    soon,
  );
  await context.wait("pause", { seconds: 1 });
  const [answer] = await context.createCallback("approval", { timeout: { minutes: 5 } });
  await context.step("ask", noted(key, "ask"));
  const approval = await answer;
  const doubled = await context.invoke("double", process.env.DOUBLE, { n: 21 });
  const below = { key: `${key}-chained`, steps: 4 };
  const chained = await context.invoke("chain", process.env.CHAIN, below);
  const inside = await context.runInChildContext("child", async (inner) => {
    const one = await inner.step("child-one", noted(key, "child-one", () => 1));
    await inner.wait("child-pause", { seconds: 1 });
    return one + (await inner.step("child-two", noted(key, "child-two", () => 2)));
  });
  const squares = await context.map("squares", [1, 2, 3], async (branch, item, index) =>
    branch.step(`square-${index}`, noted(key, `square-${index}`, () => item * item)),
  );
  const both = await context.parallel("both", [
    async (branch) => branch.step("left", noted(key, "left", () => "l")),
    async (branch) => branch.step("right", noted(key, "right", () => "r")),
  ]);
  const crash = crashes
    ? await context.step("crash", async () => {
        if (ledger(key, "crash", "begin") === 0) await sleep(600_000);
        ledger(key, "crash", "end");
        return "survived";
      })
    : null;
  return {
    flaky,
    approval,
    doubled,
    chained,
    inside,
    squares: squares.getResults(),
    both: both.getResults(),
    crash,
  };
});

// Steps one after another, slow enough to be killed in.
export const chain = withDurableExecution(async ({ key, steps }, context) => {
  let total = 0;
  for (let number = 0; number < steps; number += 1) {
    const body = noted(key, `link-${number}`, () => sleep(20, number));
    total += await context.step(`link-${number}`, body);
    if (number % 10 === 9) await context.wait({ seconds: 1 });
  }
  return total;
});

// As `noted`, without a look at what others wrote.
const written = (key, name, result) => async () => {
  const line = (what) =>
    appendFileSync(process.env.LEDGER, `${Date.now()} ${process.pid} ${key} ${name} ${what}\n`);
  line("begin");
  await sleep(10);
  line("end");
  return result;
};

const once = {
  semantics: StepSemantics.AtMostOncePerRetry,
  retryStrategy: () => ({ shouldRetry: false }),
};

// Steps that may run again when nobody heard of their end, and steps that never may.
export const storm = withDurableExecution(async ({ key, steps }, context) => {
  let total = 0;
  let interrupted = 0;
  for (let number = 0; number < steps; number += 1) {
    total += await context.step(`link-${number}`, written(key, `link-${number}`, number));
    try {
      total += await context.step(`once-${number}`, written(key, `once-${number}`, number), once);
    } catch (error) {
      if (!(error instanceof StepError)) throw error;
      interrupted += number;
    }
    if (number % 4 === 3) await context.wait({ seconds: 1 });
  }
  return { total, interrupted };
});

export const fails = withDurableExecution(async () => {
  throw new RangeError("as it was told");
});

// Not durable.
export const double = async ({ n }) => ({ n: n * 2 });
