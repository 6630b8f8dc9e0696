// Suites 1 and 2: steps and waits.

import { StepSemantics, withDurableExecution } from "@aws/durable-execution-sdk-js";
import { setTimeout as sleep } from "node:timers/promises";
import { failingUntil, giving, handled, never, refuse, retrying, shouting } from "./common.mjs";

const hello = (name) => giving(`Hello, ${name}!`);

export async function loseProcess() {
  // A start is durable before its body loses the process.
  await sleep(500);
  process.exit(1);
}

export const greet = withDurableExecution((event, context) => context.step(hello(event)));

export const named = withDurableExecution((event, context) => context.step("custom_step_name", hello(event)));

export const sequential = withDurableExecution(async (_event, context) => {
  const first = await context.step(giving("first"));
  return context.step(giving(`${first}_second`));
});

export const complexResult = withDurableExecution((event, context) =>
  context.step(giving({ user: event, count: event.tags.length })),
);

export const nullResult = withDurableExecution((_event, context) => context.step(giving(null)));

export const customCodec = withDurableExecution((event, context) =>
  context.step(giving(event), { serdes: shouting }),
);

export const logging = withDurableExecution((event, context) =>
  context.step(async (step) => {
    step.logger.info(`Greeting step started for: ${event}`);
    const greeting = `Hello, ${event}!`;
    step.logger.info(`Greeting step completed with: ${greeting}`);
    return greeting;
  }),
);

export const thenWait = withDurableExecution(async (_event, context) => {
  const value = await context.step(giving("computed"));
  await context.wait({ seconds: 2 });
  return value;
});

export const replaySkips = withDurableExecution(async (_event, context) => {
  const value = await context.step(async (step) => {
    step.logger.info("step executed");
    return "cached_value";
  });
  await context.wait({ seconds: 1 });
  return value;
});

export const replayThrowsAgain = withDurableExecution(async (_event, context) => {
  const body = async (step) => {
    step.logger.info("step executed");
    return refuse();
  };
  const message = await handled(context.step(body, never), (error) => error.message);
  await context.wait({ seconds: 1 });
  return message;
});

// A handler of one step that fails and is retried.
const retried = (config, succeedsIn) => {
  const body = succeedsIn ? failingUntil(succeedsIn, "Operation succeeded") : refuse;
  return withDurableExecution((_event, context) => context.step(body, config));
};

export const retriedOnce = retried(retrying(3), 2);
export const exhausted = retried(retrying(4));
export const defaultRetry = retried(undefined, 3);
export const ownNumbers = retried(retrying(5, 2, 3), 3);

// A disturbance that passes.
class TransientError extends Error {
  name = "TransientError";
}

const again = { shouldRetry: true, delay: { seconds: 1 } };
const giveUp = { shouldRetry: false };
const ofTransient = (decision, otherwise) => ({
  retryStrategy: (error) => (error instanceof TransientError ? decision : otherwise),
});

const notYet = async (step) => {
  if (step.attempt === 1) throw new TransientError("not available right now");
  return "available";
};

export const thisErrorRetried = withDurableExecution((_event, context) =>
  context.step(notYet, ofTransient(again, giveUp)),
);

export const thisErrorNotRetried = withDurableExecution((_event, context) =>
  context.step(notYet, ofTransient(giveUp, again)),
);

const semantics = StepSemantics.AtMostOncePerRetry;

export const lostForGood = withDurableExecution((event, context) => {
  const body = async (step) => {
    step.logger.info(event);
    await loseProcess();
  };
  return context.step("at_most_once_flaky_step", body, { ...never, semantics });
});

export const lostThenRetried = withDurableExecution((event, context) => {
  const body = async (step) => {
    step.logger.info(event);
    if (step.attempt === 1) await loseProcess();
    return "succeeded on second attempt";
  };
  return context.step(body, { ...retrying(3), semantics });
});

export const fails = withDurableExecution((_event, context) => context.step(refuse, never));

export const failureHandled = withDurableExecution(async (_event, context) => {
  const value = await handled(context.step(refuse, never), () => "fallback");
  return context.step(giving(`${value}_result`));
});

export const wait = withDurableExecution((_event, context) => context.wait({ seconds: 2 }));

export const namedWait = withDurableExecution((_event, context) =>
  context.wait("custom_wait_name", { seconds: 2 }),
);

export const waits = withDurableExecution(async (_event, context) => {
  await context.wait("wait-1", { seconds: 2 });
  await context.wait("wait-2", { seconds: 2 });
  return { completedWaits: 2 };
});

export const oneMinute = withDurableExecution((_event, context) => context.wait({ minutes: 1 }));

export const oneHour = withDurableExecution((_event, context) => context.wait({ hours: 1 }));
