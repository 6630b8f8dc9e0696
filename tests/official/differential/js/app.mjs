// One handler on the official JavaScript SDK that does what its input says; ../generate.py makes the
// inputs, and ../python/app.py does the same.

import { NestingType, StepSemantics, withDurableExecution, withRetry } from "@aws/durable-execution-sdk-js";

// Errors with a class of their own, as users have them.
function failure({ name, message, data }) {
  const made = name === "RangeError" ? new RangeError(message) : new Error(message);
  made.name = name;
  if (data !== undefined) made.errorData = data;
  return made;
}

const valueOf = (it) => ("size" in it ? "x".repeat(it.size) : it.nothing ? undefined : it.value);

// What is large is told by its length: results are compared as texts.
function short(value) {
  const text = JSON.stringify(value);
  return text === undefined ? { nothing: true } : text.length > 4000 ? { length: text.length } : value;
}

const told = (error) => ({
  caught: error.name,
  type: error.errorType,
  message: error.message,
  data: error.errorData,
  cause: error.cause?.name,
});

const retry = (attempts) => (_error, attempt) => ({ shouldRetry: attempt < attempts, delay: { seconds: 1 } });
const seconds = (count) => (count ? { seconds: count } : undefined);

const kinds = {
  step: (ctx, it, at) =>
    ctx.step(
      it.name === null ? undefined : it.name + at,
      async ({ attempt }) => {
        if (attempt <= it.fails) throw failure(it.error);
        return valueOf(it.value);
      },
      {
        retryStrategy: retry(it.attempts),
        semantics: it.once ? StepSemantics.AtMostOncePerRetry : StepSemantics.AtLeastOncePerRetry,
      },
    ),
  wait: (ctx, it, at) =>
    it.name === null ? ctx.wait({ seconds: it.seconds }) : ctx.wait(it.name + at, { seconds: it.seconds }),
  condition: (ctx, it, at) =>
    ctx.waitForCondition(
      it.name + at,
      async ({ polls, state }) => {
        if (polls + 1 === it.failsAt) throw failure(it.error);
        return { polls: polls + 1, state };
      },
      {
        initialState: { polls: 0, state: it.state },
        waitStrategy: ({ polls }) =>
          polls < it.polls ? { shouldContinue: true, delay: { seconds: 1 } } : { shouldContinue: false },
      },
    ),
  callback: async (ctx, it, at) => {
    const options = { timeout: seconds(it.timeout), heartbeatTimeout: seconds(it.heartbeat) };
    const [answer] = await ctx.createCallback(it.name + at, options);
    if (it.work) await ctx.step(`${it.name}${at}-work`, async () => null);
    return answer;
  },
  waitCallback: (ctx, it, at) =>
    ctx.waitForCallback(
      it.name + at,
      async () => {
        if (it.fails) throw failure(it.error);
      },
      { timeout: seconds(it.timeout), heartbeatTimeout: seconds(it.heartbeat), retryStrategy: retry(it.attempts) },
    ),
  invoke: (ctx, it, at) =>
    ctx.invoke(it.name + at, it.target === "Child" ? "Child:$LATEST" : it.target, it.input),
  throw: async (_ctx, it) => {
    throw failure(it.error);
  },
  child: (ctx, it, at) =>
    ctx.runInChildContext(it.name + at, async (inner) => padded(await all(inner, it.body, at), it.pad), {
      virtualContext: it.virtual,
    }),
  map: async (ctx, it, at) => {
    const items = Array.from({ length: it.items }, (_, index) => ({ index, text: `item ${index}` }));
    return batch(
      await ctx.map(
        it.name + at,
        items,
        async (inner, item, index) => {
          const done = await all(inner, it.body, `${at}.${index}`);
          if (index === it.failing) throw failure({ name: "Error", message: `item ${index} fails` });
          return padded([item.text, ...done], it.pad);
        },
        options(it),
      ),
    );
  },
  parallel: async (ctx, it, at) =>
    batch(
      await ctx.parallel(
        it.name + at,
        it.bodies.map((body, index) => {
          const func = (inner) => all(inner, body, at);
          return index % 2 ? { name: `${it.name}${at}-${index}`, func } : func;
        }),
        options(it),
      ),
    ),
  retry: (ctx, it, at) =>
    withRetry(
      ctx,
      it.name + at,
      async (inner, attempt) => {
        const done = await all(inner, it.body, at);
        if (attempt <= it.fails) throw failure(it.error);
        return done;
      },
      { retryStrategy: retry(it.attempts) },
    ),
  heavy: async (ctx, it, at) => {
    const body = async () => "h".repeat(it.size);
    let total = 0;
    for (let index = 0; index < it.count; index += 1) {
      total += (await ctx.step(`${it.name}${at}-${index}`, body)).length;
    }
    await ctx.wait(`${it.name}${at}-wait`, { seconds: 1 });
    return total;
  },
  together: async (ctx, it, at) => {
    const begun = it.bodies.map((node) => kinds[node.op](ctx, node, at));
    const done = it.durable ? await ctx.promise[it.how](it.name + at, begun) : await Promise[it.how](begun);
    if (it.how !== "allSettled") return done;
    return done.map(({ status, value, reason }) => ({ status, value: short(value), message: reason?.message }));
  },
};

function options(it) {
  const rule = {
    ...(it.least === undefined ? {} : { minSuccessful: it.least }),
    ...(it.tolerated === undefined ? {} : { toleratedFailureCount: it.tolerated }),
    ...(it.percentage === undefined ? {} : { toleratedFailurePercentage: it.percentage }),
  };
  return {
    ...(!it.concurrency ? {} : { maxConcurrency: it.concurrency }),
    ...(Object.keys(rule).length ? { completionConfig: rule } : {}),
    ...(it.flat ? { nesting: NestingType.FLAT } : {}),
  };
}

const batch = (done) => ({
  status: done.status,
  reason: done.completionReason,
  items: done.all.map(({ index, status, result, error }) => ({
    index,
    status,
    result: short(result),
    error: error && told(error),
  })),
});

const padded = (value, pad) => (pad ? { value, pad: "p".repeat(pad) } : value);

async function all(ctx, body, at) {
  const done = [];
  for (const node of body) {
    try {
      done.push(short(await kinds[node.op](ctx, node, at)));
    } catch (error) {
      if (!node.catch) throw error;
      done.push(told(error));
    }
  }
  return done;
}

export const handler = withDurableExecution(async (program, ctx) => {
  const done = await all(ctx, program.body, "");
  if (program.fail) throw failure(program.fail);
  return program.nothing ? undefined : padded(done, program.pad);
});

// Not durable.
export const plain = async ({ value, fail }) => {
  if (fail) throw failure(fail);
  return valueOf(value);
};
