// Suite 6: conditions.

import { createWaitStrategy, JitterStrategy, withDurableExecution } from "@aws/durable-execution-sdk-js";
import { codec, giving, handled, refuse } from "./common.mjs";

const polling = (initialState, isOpen, { seconds = 1, maxAttempts = 60, serdes } = {}) => ({
  initialState,
  serdes,
  waitStrategy: createWaitStrategy({
    shouldContinuePolling: isOpen,
    maxAttempts,
    initialDelay: { seconds },
    backoffRate: 1,
    jitter: JitterStrategy.NONE,
  }),
});

const count = async (state) => state + 1;

// Counts to a threshold.
const counted = (context, initial, threshold, { name, ...config } = {}) =>
  context.waitForCondition(
    name,
    count,
    polling(initial, (state) => state < threshold, config),
  );

export const basic = withDurableExecution((event, context) => counted(context, 0, event));

export const metAtOnce = withDurableExecution((event, context) =>
  context.waitForCondition(
    async (state) => state,
    polling(5, (state) => state < event),
  ),
);

export const named = withDurableExecution((event, context) => counted(context, 0, event, { name: "poll-status" }));

export const initialState = withDurableExecution((event, context) => counted(context, 5, event));

export const fixedDelay = withDurableExecution((event, context) => counted(context, 0, event, { seconds: 2 }));

export const exhausted = withDurableExecution((event, context) =>
  context.waitForCondition(
    count,
    polling(event, () => true, { maxAttempts: 3 }),
  ),
);

const failing = (context) =>
  context.waitForCondition(
    refuse,
    polling(0, () => true),
  );

export const fails = withDurableExecution((_event, context) => failing(context));

export const failureHandled = withDurableExecution((_event, context) =>
  handled(failing(context), () => "recovered"),
);

export const complexState = withDurableExecution((_event, context) => {
  const check = async (state) => {
    const attempts = state.attempts + 1;
    return { status: attempts >= 2 ? "DONE" : "PENDING", attempts };
  };
  const pending = { status: "PENDING", attempts: 0 };
  return context.waitForCondition(
    check,
    polling(pending, ({ status }) => status === "PENDING"),
  );
});

export const nullState = withDurableExecution((_event, context) =>
  context.waitForCondition(
    giving(null),
    polling(null, () => false),
  ),
);

export const customCodec = withDurableExecution((_event, context) => {
  const serdes = codec(
    (state) => `state:${state}`,
    (text) => text.replace("state:", ""),
  );
  return context.waitForCondition(
    async (state) => `${state}x`,
    polling("", (state) => state.length < 2, { serdes }),
  );
});

export const thenStep = withDurableExecution(async (event, context) => {
  const state = await counted(context, 0, event);
  return context.step(giving(state * 10));
});

export const sequential = withDurableExecution(async (_event, context) =>
  counted(context, await counted(context, 0, 2), 4),
);
