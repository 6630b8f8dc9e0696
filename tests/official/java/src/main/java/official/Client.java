package official;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.services.lambda.LambdaClient;
import software.amazon.awssdk.services.lambda.model.CallbackTimeoutException;
import software.amazon.awssdk.services.lambda.model.DurableExecutionAlreadyStartedException;
import software.amazon.awssdk.services.lambda.model.ErrorObject;
import software.amazon.awssdk.services.lambda.model.Event;
import software.amazon.awssdk.services.lambda.model.EventType;
import software.amazon.awssdk.services.lambda.model.Execution;
import software.amazon.awssdk.services.lambda.model.ExecutionStatus;
import software.amazon.awssdk.services.lambda.model.GetDurableExecutionResponse;
import software.amazon.awssdk.services.lambda.model.InvocationType;
import software.amazon.awssdk.services.lambda.model.InvokeResponse;
import software.amazon.awssdk.services.lambda.model.LambdaException;
import software.amazon.awssdk.services.lambda.model.ResourceNotFoundException;

/**
 * The AWS SDK for Java as a client: starts the functions beside it, looks at them, answers and stops
 * them. Where the server is, the environment says, as for every AWS SDK.
 */
public final class Client {
  private static final LambdaClient CLIENT = LambdaClient.builder()
      .overrideConfiguration(it -> it.retryStrategy(strategy -> strategy.maxAttempts(1)))
      .build();

  private interface Part {
    void run() throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    part("executions", Client::executions);
    part("histories", Client::histories);
    part("lists", Client::lists);
    part("callbacks", Client::callbacks);
    part("stops", Client::stops);
    part("invokes", Client::invokes);
    part("protocol", Client::protocol);
  }

  private static void part(String name, Part part) throws Exception {
    long begun = System.nanoTime();
    part.run();
    System.out.printf("    java client %s: %.1f s%n", name, (System.nanoTime() - begun) / 1e9);
  }

  private static void check(boolean is, Object what) {
    if (!is) {
      throw new AssertionError(what);
    }
  }

  private static void equal(Object is, Object wanted) {
    check(Objects.equals(is, wanted), is + " instead of " + wanted);
  }

  /** A refusal as a class of the client, with its name. */
  private static void refused(Class<? extends LambdaException> kind, Runnable request) {
    try {
      request.run();
    } catch (LambdaException refusal) {
      check(kind.isInstance(refusal), refusal);
      equal(refusal.awsErrorDetails().errorCode(), kind.getSimpleName());
      check(refusal.statusCode() / 100 == 4 && refusal.requestId() != null, refusal);
      return;
    }
    throw new AssertionError(kind + " was expected");
  }

  private static <T> T until(String what, Callable<T> question) throws Exception {
    for (long end = System.nanoTime() + 120_000_000_000L; System.nanoTime() < end; ) {
      T answer = question.call();
      if (answer != null) {
        return answer;
      }
      Thread.sleep(20);
    }
    throw new AssertionError("waited in vain for " + what);
  }

  private static SdkBytes bytes(Object value) throws Exception {
    return SdkBytes.fromByteArray(official.Execution.JSON.writeValueAsBytes(value));
  }

  private static JsonNode json(String text) throws Exception {
    return official.Execution.JSON.readTree(text);
  }

  private static InvokeResponse call(String function, Object payload, String name) throws Exception {
    SdkBytes written = bytes(payload);
    return CLIENT.invoke(it -> it.functionName(function).qualifier("$LATEST").payload(written)
        .durableExecutionName(name));
  }

  private static String start(String function, Object payload) throws Exception {
    SdkBytes written = bytes(payload);
    return CLIENT.invoke(it -> it.functionName(function).qualifier("$LATEST").payload(written)
        .invocationType(InvocationType.EVENT)).durableExecutionArn();
  }

  private static GetDurableExecutionResponse describe(String arn) {
    return CLIENT.getDurableExecution(it -> it.durableExecutionArn(arn));
  }

  private static GetDurableExecutionResponse ended(String arn) throws Exception {
    return until("the end of " + arn, () -> {
      var described = describe(arn);
      return described.status() == ExecutionStatus.RUNNING ? null : described;
    });
  }

  private static List<Event> history(String arn, boolean backwards) {
    return new ArrayList<>(CLIENT.getDurableExecutionHistoryPaginator(it -> it
        .durableExecutionArn(arn).maxItems(3).reverseOrder(backwards).includeExecutionData(true))
        .events().stream().toList());
  }

  private static Event event(String arn, EventType kind) throws Exception {
    return until(kind.toString(), () -> history(arn, false).stream()
        .filter(it -> it.eventType() == kind).findFirst().orElse(null));
  }

  private static String key() {
    return "java-" + System.nanoTime();
  }

  private static void executions() throws Exception {
    var reply = call("Chain", Map.of("key", key(), "steps", 3), null);
    equal(reply.payload().asUtf8String(), "3");
    equal(reply.functionError(), null);
    String arn = reply.durableExecutionArn();
    var described = describe(arn);
    equal(described.status(), ExecutionStatus.SUCCEEDED);
    equal(described.result(), "3");
    var took = Duration.between(described.startTimestamp(), described.endTimestamp());
    check(!took.isNegative() && took.toMinutes() == 0, took);
    var age = Duration.between(described.startTimestamp(), Instant.now());
    check(age.abs().toMinutes() == 0, described.startTimestamp());

    var failed = call("Fails", Map.of(), null);
    equal(failed.functionError(), "Unhandled");
    var document = json(failed.payload().asUtf8String());
    equal(document.get("errorMessage").textValue(), "as it was told");
    var why = describe(failed.durableExecutionArn()).error();
    equal(why.errorType(), "HandlerError");
    equal(why.stackTrace(), List.of("Place.java", "Handlers.java"));

    String name = key();
    var first = call("Chain", Map.of("key", name, "steps", 1), name);
    var again = call("Chain", Map.of("key", name, "steps", 1), name);
    equal(again.durableExecutionArn(), first.durableExecutionArn());
    refused(DurableExecutionAlreadyStartedException.class, () -> {
      try {
        call("Chain", Map.of("key", name, "steps", 2), name);
      } catch (LambdaException refusal) {
        throw refusal;
      } catch (Exception error) {
        throw new AssertionError(error);
      }
    });
    refused(ResourceNotFoundException.class, () -> CLIENT.invoke(it -> it.functionName("nobody")));
    refused(ResourceNotFoundException.class, () -> describe(arn + "0"));
  }

  private static void histories() throws Exception {
    String arn = start("Chain", Map.of("key", key(), "steps", 2));
    ended(arn);
    var events = history(arn, false);
    equal(events.stream().map(Event::eventTypeAsString).toList(), List.of(
        "ExecutionStarted", "StepStarted", "StepSucceeded", "StepStarted", "StepSucceeded",
        "InvocationCompleted", "ExecutionSucceeded"));
    equal(events.stream().map(Event::eventId).toList(),
        IntStream.rangeClosed(1, 7).boxed().toList());
    equal(events.get(2).stepSucceededDetails().result().payload(), "0");
    var backwards = history(arn, true);
    Collections.reverse(backwards);
    equal(backwards, events);
  }

  private static void lists() throws Exception {
    Instant before = Instant.now();
    // The bound itself does not count.
    Thread.sleep(2);
    var started = new ArrayList<String>();
    for (int number = 0; number < 3; number++) {
      started.add(call("Chain", Map.of("key", key(), "steps", 1), null).durableExecutionArn());
    }
    var found = CLIENT.listDurableExecutionsByFunctionPaginator(it -> it
        .functionName("Chain").maxItems(2).startedAfter(before).reverseOrder(true)
        .statuses(ExecutionStatus.SUCCEEDED, ExecutionStatus.FAILED)).durableExecutions();
    equal(found.stream().map(Execution::durableExecutionArn).toList(), started);
  }

  private static String ask(Map<String, Object> more) throws Exception {
    var payload = new java.util.HashMap<String, Object>(more);
    payload.put("probe", "asks");
    String arn = start("Probe", payload);
    event(arn, EventType.CALLBACK_STARTED);
    // Not before the handler waits for it, so that it has to be woken.
    event(arn, EventType.INVOCATION_COMPLETED);
    return arn;
  }

  private static String callback(String arn) throws Exception {
    return event(arn, EventType.CALLBACK_STARTED).callbackStartedDetails().callbackId();
  }

  /** How the function says that an operation ended. */
  private static void said(String arn, String status, String type, String result) throws Exception {
    var described = ended(arn);
    check(described.status() == ExecutionStatus.SUCCEEDED, described.error());
    var said = json(described.result());
    equal(said.get("status").textValue(), status);
    equal(said.path("type").textValue(), type);
    equal(said.get("result"), result == null ? null : json(result));
  }

  private static void callbacks() throws Exception {
    String arn = ask(Map.of("timeout", 60));
    String id = callback(arn);
    CLIENT.sendDurableExecutionCallbackHeartbeat(it -> it.callbackId(id));
    CLIENT.sendDurableExecutionCallbackSuccess(
        it -> it.callbackId(id).result(SdkBytes.fromUtf8String("{\"yes\":\"ü\"}")));
    said(arn, "SUCCEEDED", null, "{\"yes\":\"ü\"}");
    refused(CallbackTimeoutException.class,
        () -> CLIENT.sendDurableExecutionCallbackHeartbeat(it -> it.callbackId(id)));

    arn = ask(Map.of());
    String other = callback(arn);
    var why = ErrorObject.builder().errorType("Refused").stackTrace("a", "b").build();
    CLIENT.sendDurableExecutionCallbackFailure(it -> it.callbackId(other).error(why));
    said(arn, "FAILED", "Refused", null);
    equal(event(arn, EventType.CALLBACK_FAILED).callbackFailedDetails().error().payload(), why);

    said(ask(Map.of("timeout", 1)), "TIMED_OUT", "Callback.Timeout", null);
  }

  private static void stop(String arn) {
    CLIENT.stopDurableExecution(
        it -> it.durableExecutionArn(arn).error(error -> error.errorType("Enough")));
  }

  private static void stops() throws Exception {
    String waits = ask(Map.of());
    stop(waits);
    var described = describe(waits);
    equal(described.status(), ExecutionStatus.STOPPED);
    equal(described.error().errorType(), "Enough");

    // A handler that goes on is told that its token is worth nothing, and nobody hears its answer.
    String key = key();
    String runs = start("Probe", Map.of("probe", "stopped", "key", key));
    until("the handler", () -> noted(key + " runs begin"));
    stop(runs);
    until("what the handler was told", () -> noted(key + " stale end"));
    event(runs, EventType.INVOCATION_COMPLETED);
    equal(describe(runs).status(), ExecutionStatus.STOPPED);
  }

  private static Boolean noted(String line) throws Exception {
    var ledger = Path.of(System.getenv("LEDGER"));
    return Files.exists(ledger) && Files.readString(ledger).contains(line) ? true : null;
  }

  private static String calls(String function, Object payload) throws Exception {
    return start("Probe", Map.of("probe", "calls", "function", function, "payload", payload));
  }

  private static void invokes() throws Exception {
    said(calls("DOUBLE", Map.of("n", 2)), "SUCCEEDED", null, "{\"n\":4}");
    said(calls("CHAIN", Map.of("key", key(), "steps", 3)), "SUCCEEDED", null, "3");
    said(calls("FAILS", Map.of()), "FAILED", "HandlerError", null);
    said(calls("nobody", Map.of()), "FAILED", "ResourceNotFoundException", null);
    String arn = calls("PROBE", Map.of("probe", "asks"));
    var below = event(arn, EventType.CHAINED_INVOKE_STARTED).chainedInvokeStartedDetails();
    stop(below.durableExecutionArn());
    said(arn, "STOPPED", "Enough", null);
  }

  /** What the handlers in Probes.java look at themselves. */
  private static void protocol() throws Exception {
    for (String probe : List.of("tokens", "pages")) {
      equal(call("Probe", Map.of("probe", probe), null).payload().asUtf8String(), "\"as expected\"");
    }
    var large = call("Probe", Map.of("probe", "large"), null);
    equal(large.functionError(), null);
    equal(large.payload().asByteArrayUnsafe().length, 6 * 1024 * 1024 - 18);
    event(large.durableExecutionArn(), EventType.INVOCATION_COMPLETED);
    equal(describe(large.durableExecutionArn()).status(), ExecutionStatus.SUCCEEDED);
  }
}
