// Requirements as handlers on the official JavaScript SDK; template.yaml says which is which.

import { StepSemantics, withDurableExecution } from "@aws/durable-execution-sdk-js";
import { setTimeout as sleep } from "node:timers/promises";

const retrying = (attempts) => ({
  retryStrategy: (_error, attempt) => ({ shouldRetry: attempt < attempts, delay: { seconds: 1 } }),
});
const never = { retryStrategy: () => ({ shouldRetry: false }) };

const refuse = async () => {
  throw new Error("failed as required");
};

async function loseProcess() {
  // A start is durable before its body loses the process.
  await sleep(500);
  process.exit(1);
}

export const greet = withDurableExecution((event, context) => context.step(async () => `Hello, ${event}!`));

export const named = withDurableExecution((event, context) =>
  context.step("custom_step_name", async () => `Hello, ${event}!`),
);

export const sequential = withDurableExecution(async (_event, context) => {
  const first = await context.step(async () => "first");
  return context.step(async () => `${first}_second`);
});

export const logging = withDurableExecution((event, context) =>
  context.step(async (step) => {
    step.logger.info(`Greeting step started for: ${event}`);
    const greeting = `Hello, ${event}!`;
    step.logger.info(`Greeting step completed with: ${greeting}`);
    return greeting;
  }),
);

export const thenWait = withDurableExecution(async (_event, context) => {
  const value = await context.step(async () => "computed");
  await context.wait({ seconds: 2 });
  return value;
});

const succeedLater = (context) => {
  let attempt = 0;
  return context.step(
    async (step) => {
      attempt = step.attempt ?? attempt + 1;
      if (attempt < 2) await refuse();
      return "Operation succeeded";
    },
    retrying(3),
  );
};

export const retried = withDurableExecution((_event, context) => succeedLater(context));

export const exhausted = withDurableExecution((_event, context) => context.step(refuse, retrying(4)));

export const lostForGood = withDurableExecution((event, context) =>
  context.step(
    "at_most_once_flaky_step",
    async (step) => {
      step.logger.info(event);
      await loseProcess();
    },
    { ...never, semantics: StepSemantics.AtMostOncePerRetry },
  ),
);

export const fails = withDurableExecution((_event, context) => context.step(refuse, never));

export const failureHandled = withDurableExecution(async (_event, context) => {
  let value = "fallback";
  try {
    value = await context.step(refuse, never);
  } catch {
    // As required.
  }
  return context.step(async () => `${value}_result`);
});

export const wait = withDurableExecution((_event, context) => context.wait({ seconds: 2 }));

export const waits = withDurableExecution(async (_event, context) => {
  await context.wait("wait-1", { seconds: 2 });
  await context.wait("wait-2", { seconds: 2 });
  return { completedWaits: 2 };
});

export const child = withDurableExecution((event, context) =>
  context.runInChildContext((inner) => inner.step(async () => event)),
);

export const childFails = withDurableExecution((_event, context) =>
  context.runInChildContext("failing", (inner) => inner.step(refuse, never)),
);

const awaited = async (context, name, config) => {
  const [answer] = await context.createCallback(name, config);
  return answer;
};

export const callback = withDurableExecution((event, context) => awaited(context, event));

export const callbackTimeout = withDurableExecution((event, context) =>
  awaited(context, event, { timeout: { seconds: 5 } }),
);

export const callbackHeartbeat = withDurableExecution((event, context) =>
  awaited(context, event, { heartbeatTimeout: { seconds: 10 } }),
);

export const callbackAfterWait = withDurableExecution(async (event, context) => {
  const [answer] = await context.createCallback(event);
  await context.wait({ seconds: 5 });
  return answer;
});

// The input may be text, which would be taken for a function after an unnamed one.
export const invoke = withDurableExecution((event, context) => context.invoke("echo", process.env.ECHO, event));

export const invokeFails = withDurableExecution((_event, context) => context.invoke(process.env.FAILING, null));

export const invokeFailureHandled = withDurableExecution(async (_event, context) => {
  try {
    return await context.invoke(process.env.FAILING, null);
  } catch {
    return "fallback";
  }
});

// Targets; they wait so that their caller has suspended before they answer.
export const echo = withDurableExecution(async (event, context) => {
  await context.wait({ seconds: 1 });
  return event;
});

export const failing = withDurableExecution(async (_event, context) => {
  await context.wait({ seconds: 1 });
  return refuse();
});

const polling = (initialState, isOpen, attempts = 60) => ({
  initialState,
  waitStrategy: (state, attempt) => {
    if (!isOpen(state)) return { shouldContinue: false };
    if (attempt >= attempts) throw new Error("the attempts are used up");
    return { shouldContinue: true, delay: { seconds: 1 } };
  },
});

export const condition = withDurableExecution((event, context) =>
  context.waitForCondition(
    async (state) => state + 1,
    polling(0, (state) => state < event),
  ),
);

export const conditionExhausted = withDurableExecution((event, context) =>
  context.waitForCondition(
    async (state) => state + 1,
    polling(event, () => true, 3),
  ),
);

export const waitForCallback = withDurableExecution((event, context) => context.waitForCallback(event, async () => {}));

const oneAtATime = { maxConcurrency: 1 };

export const parallel = withDurableExecution(async (_event, context) => {
  const branches = ["task-1", "task-2"].map((text) => (inner) => inner.step(async () => text));
  return (await context.parallel("parallel", branches, oneAtATime)).getResults();
});

export const parallelUnnamed = withDurableExecution(async (_event, context) => {
  const branches = ["alpha", "beta"].map((text) => async () => text);
  return (await context.parallel(branches, oneAtATime)).getResults();
});

export const greetAll = withDurableExecution(async (event, context) => {
  const item = (inner, name) => inner.step(async () => `Hello, ${name}!`);
  return (await context.map("map", event, item, oneAtATime)).getResults();
});

export const namedItems = withDurableExecution(async (event, context) => {
  const config = { ...oneAtATime, itemNamer: (item) => `item-${item}` };
  return (await context.map("named-items", event, async (_inner, item) => item * 10, config)).getResults();
});

// Writes a record of each hook it sees.
class Recorder {
  write(hook, fields) {
    const record = { plugin: "CONFPLUGIN", hook, durableExecutionArn: this.arn, ...fields };
    process.stdout.write(`${JSON.stringify(record)}\n`);
  }

  async onInvocationStart(info) {
    this.arn = info.executionArn;
    for (const operation of Object.values(info.updatedOperations)) {
      if (operation.type === "WAIT") {
        const { id: op, status } = operation;
        this.write("updated-on-invoke", { op, status, first: info.isFirstInvocation });
      }
    }
    this.write("invocation-start", { first: info.isFirstInvocation });
  }

  async onInvocationEnd({ status }) {
    this.write("invocation-end", { status });
  }

  async onOperationStart({ id, type }) {
    this.write("operation-start", { op: id, type });
  }

  async onOperationEnd({ id, type, status }) {
    this.write("operation-end", { op: id, type, status });
  }
}

export const greetObserved = withDurableExecution(
  (event, context) =>
    context.step(async (step) => {
      step.logger.info(`Greeting step running for: ${event}`);
      return `Hello, ${event}!`;
    }),
  { plugins: [new Recorder()] },
);

export const waitObserved = withDurableExecution((_event, context) => context.wait({ seconds: 2 }), {
  plugins: [new Recorder()],
});
