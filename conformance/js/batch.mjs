// Suites 8 and 9: parallel and map.

import { NestingType, withDurableExecution } from "@aws/durable-execution-sdk-js";
import { codec, giving, refuse } from "./common.mjs";

const counts = ["successCount", "failureCount", "totalCount"];
const outcome = ["completionReason", "status", ...counts];
const inTurn = { maxConcurrency: 1 };

// What a handler tells of a batch: some of its numbers, by name.
const numbers = (batch, wanted) => {
  const known = { errorCount: batch.getErrors().length };
  return Object.fromEntries(wanted.map((name) => [name, known[name] ?? batch[name]]));
};

const echo = (context, value) => context.step(giving(value));
const stepping = (value) => (inner) => echo(inner, value);
const settle = (succeeds) => (succeeds ? "ok" : refuse());

// A handler that runs these side by side, in turn unless told otherwise.
const branches = (name, bodies, config) =>
  withDurableExecution(async (_event, context) => {
    const batch = await context.parallel(name, bodies, { ...inTurn, ...config });
    return batch.getResults();
  });

// A handler that does the same with every item; its input are the items unless they are given.
const items = (name, body, { given, wait, ...config } = {}) =>
  withDurableExecution(async (event, context) => {
    const batch = await context.map(name, given ?? event, body, { ...inTurn, ...config });
    if (wait) await context.wait(wait);
    return batch.getResults();
  });

// A handler whose branches or items succeed (true) or fail, and that tells how it ended.
const settled = (run) => (name, outcomes, wanted, completionConfig, wait) =>
  withDurableExecution(async (_event, context) => {
    const batch = await run(context, name, outcomes, { ...inTurn, completionConfig });
    if (!wanted) batch.throwIfError();
    if (wait) await context.wait(wait);
    return numbers(batch, wanted ?? outcome);
  });

const parallel = settled((context, name, outcomes, config) =>
  context.parallel(
    name,
    outcomes.map((succeeds) => async () => settle(succeeds)),
    config,
  ),
);
const map = settled((context, name, outcomes, config) =>
  context.map(name, outcomes, async (_inner, succeeds) => settle(succeeds), config),
);

export const parallelBasic = branches("parallel", [stepping("task-1"), stepping("task-2")]);
export const parallelUnnamed = branches(undefined, [giving("alpha"), giving("beta")]);
export const parallelNamed = branches("named", [
  { name: "first", func: giving("one") },
  { name: "second", func: giving("two") },
]);
export const parallelTypes = branches("hetero", [giving("hello"), giving(42), giving({ k: "v" })]);
export const parallelEmpty = branches("empty", []);
export const parallelConcurrent = branches("concurrent", ["r0", "r1", "r2"].map(giving), { maxConcurrency: 2 });
export const parallelFlat = branches("flat", [stepping("fa"), stepping("fb")], { nesting: NestingType.FLAT });

const waitThenB1 = async (inner) => {
  await inner.wait({ seconds: 2 });
  return "b1";
};
export const parallelReplay = branches("replay", [stepping("b0"), waitThenB1]);
export const parallelCodec = branches("serde", [giving("x"), giving("y")], {
  itemSerdes: codec(
    (wrapped) => JSON.stringify({ wrapped }),
    (text) => JSON.parse(text).wrapped,
  ),
});

const innerParallel = async (inner) => {
  const batch = await inner.parallel("inner", [stepping("i1"), stepping("i2")], inTurn);
  return batch.getResults();
};
export const parallelNested = branches("outer", [innerParallel]);
export const parallelNoConcurrency = branches("bad-concurrency", [giving("ok"), giving("ok")], { maxConcurrency: 0 });

const [yes, no] = [true, false];
const reasonAndSuccesses = ["completionReason", "successCount", "totalCount"];
const reasonAndCounts = ["completionReason", ...counts];
const tolerating = (toleratedFailureCount) => ({ toleratedFailureCount });
const quarter = { toleratedFailurePercentage: 25 };

export const parallelFailFast = parallel("failfast", [yes, no, yes], outcome, tolerating(0));
export const parallelThrown = parallel("throwing", [no, yes], undefined, tolerating(0));
export const parallelEnough = parallel("min-successful", [yes, yes, yes, yes], reasonAndSuccesses, { minSuccessful: 2 });
export const parallelTolerated = parallel("tolerated", [yes, no, yes], outcome, tolerating(1));
export const parallelExceeded = parallel("tolerated-exceeded", [no, no, yes], reasonAndCounts, tolerating(1));
export const parallelPercentage = parallel("tolerated-pct", [no, no, yes, yes], reasonAndCounts, quarter);
export const parallelAllFail = parallel("all-fail", [no, no, no], outcome, tolerating(3));
export const parallelTooFew = parallel("min-not-reached", [yes, no, yes], outcome, { minSuccessful: 3 });
export const parallelBothCriteria = parallel("combined", [no, no, yes, yes], reasonAndCounts, {
  minSuccessful: 3,
  toleratedFailureCount: 1,
});
export const parallelAccessors = parallel(
  "accessors",
  [yes, no, yes],
  ["hasFailure", "successCount", "failureCount", "errorCount"],
  tolerating(1),
);
export const parallelJustTolerated = parallel("pct-boundary", [no, yes, yes, yes], outcome, quarter);

const shout = async (_inner, item) => item.toUpperCase();
const echoLater = async (inner, item, index) => {
  if (index === 1) await inner.wait({ seconds: 1 });
  return echo(inner, item);
};

// Stores a batch as the list of its values.
const marked = codec(
  (batch) => `OPSERDE:${batch.getResults().join(",")}`,
  (text) => {
    const values = text.replace("OPSERDE:", "").split(",");
    const all = values.map((result, index) => ({ index, status: "SUCCEEDED", result }));
    return { all, completionReason: "ALL_COMPLETED" };
  },
);

export const mapBasic = items("map", (inner, name) => echo(inner, `Hello, ${name}!`));
export const mapUnnamed = items(undefined, async (_inner, item) => item * 2);
export const mapIndex = items("indexed", async (_inner, item, index) => item + index);
export const mapEmpty = items("empty", shout);
export const mapConcurrent = items("concurrent", async (_inner, item) => item, {
  given: ["r0", "r1", "r2"],
  maxConcurrency: 2,
});
export const mapFlat = items("flat", echo, { given: ["fa", "fb"], nesting: NestingType.FLAT });
export const mapNamedItems = items("named-items", async (_inner, item) => item * 10, {
  itemNamer: (item) => `item-${item}`,
});
export const mapItemCodec = items("serdes", shout, {
  given: ["x", "y"],
  itemSerdes: codec(
    (value) => `wrapped:${value}`,
    (text) => text.replace("wrapped:", ""),
  ),
});
export const mapSuspends = items("suspend", echoLater, { given: ["r0", "r1"] });
export const mapThenWait = items("then-wait", shout, { given: ["a", "b"], wait: { seconds: 1 } });
export const mapCodec = items("op-serde", shout, { given: ["x", "y"], serdes: marked });
export const mapCodecReplay = items("op-serde-replay", shout, {
  given: ["x", "y"],
  wait: { seconds: 1 },
  serdes: marked,
});

export const mapFailFast = map("failfast", [yes, no, yes], outcome, tolerating(0));
export const mapThrown = map("throwing", [no, yes], undefined, tolerating(0));
export const mapEnough = map("min-successful", [yes, yes, yes, yes], reasonAndSuccesses, { minSuccessful: 2 });
export const mapTolerated = map("tolerated", [yes, no, yes], outcome, tolerating(1));
export const mapExceeded = map("tolerated-exceeded", [no, no, yes], reasonAndCounts, tolerating(1));
export const mapPercentage = map("tolerated-pct", [no, no, yes, yes], reasonAndCounts, quarter);
export const mapFailureThenWait = map("fail-then-wait", [yes, no], outcome, tolerating(1), { seconds: 1 });

export const mapLarge = withDurableExecution(async (_event, context) => {
  const large = async (_inner, letter) => letter.repeat(70 * 1024);
  const batch = await context.map("large", ["a", "b", "c", "d"], large, inTurn);
  return numbers(batch, ["successCount", "totalCount"]);
});
