package official;

import static official.Execution.CLIENT;
import static official.Execution.JSON;

import com.amazonaws.services.lambda.runtime.Context;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import software.amazon.awssdk.services.lambda.model.CallbackOptions;
import software.amazon.awssdk.services.lambda.model.ExecutionStatus;
import software.amazon.awssdk.services.lambda.model.InvalidParameterValueException;
import software.amazon.awssdk.services.lambda.model.Operation;
import software.amazon.awssdk.services.lambda.model.OperationAction;
import software.amazon.awssdk.services.lambda.model.OperationType;
import software.amazon.awssdk.services.lambda.model.OperationUpdate;

/** A function that looks at the protocol itself, and fails with what it does not expect. */
public final class Probes {
  private static final int LARGE = 6 * 1024 * 1024 - 20;

  public void probe(InputStream event, OutputStream answer, Context context) throws Exception {
    Handlers.serve(event, answer, place -> {
      JsonNode input = place.execution.input();
      return switch (input.get("probe").textValue()) {
        case "tokens" -> tokens(place);
        case "pages" -> pages(place);
        case "stopped" -> stopped(place, input.get("key").textValue());
        case "large" -> large(place);
        case "asks" -> told(() -> place.callback("question", options(input)).result());
        case "calls" -> told(() -> {
          String name = input.get("function").textValue();
          String known = System.getenv(name);
          return place.invoke("call", known == null ? name : known, input.get("payload"));
        });
        default -> throw new IllegalArgumentException(input.toString());
      };
    });
  }

  private static void check(boolean is, Object what) {
    if (!is) {
      throw new IllegalStateException(String.valueOf(what));
    }
  }

  private static List<OperationUpdate> steps(Place place, int count, String payload) {
    var updates = new ArrayList<OperationUpdate>();
    for (int number = 0; number < count; number++) {
      String id = place.next();
      updates.add(place.update(id, OperationType.STEP, OperationAction.START, null, "Step").build());
      var end = place.update(id, OperationType.STEP, OperationAction.SUCCEED, null, "Step");
      updates.add(end.payload(payload).build());
    }
    return updates;
  }

  /**
   * More state than an invocation can carry: the rest comes in pages, which neither overlap nor end
   * early. What the event and the API say about the same operation is the same.
   */
  private static Object pages(Place place) throws Exception {
    var known = place.execution.operations;
    int wanted = 2;
    // Few large ones, and as many as the official SDK sends at once.
    for (int batch = 0; batch < 13; batch++) {
      int count = batch < 12 ? 5 : 100;
      var updates = steps(place, count, batch < 12 ? "x".repeat(100 * 1024) : "1");
      if (!known.containsKey(updates.get(0).id())) {
        place.execution.checkpoint(updates.toArray(new OperationUpdate[0]));
      }
      wanted += count;
    }
    place.wait(null, 1);
    check(known.size() == wanted, known.size() + " operations instead of " + wanted);
    int seen = 0;
    String token = place.execution.token();
    for (Operation operation : CLIENT.getDurableExecutionStatePaginator(
        it -> it.durableExecutionArn(place.execution.arn).checkpointToken(token).maxItems(50))
        .operations()) {
      check(operation.equals(known.get(operation.id())), operation);
      seen++;
    }
    check(seen == wanted && place.execution.pages > 0, seen + ", " + place.execution.pages);
    return "as expected";
  }

  private static String write(Place place, String token, String client, List<OperationUpdate> all) {
    return CLIENT.checkpointDurableExecution(it -> it
        .durableExecutionArn(place.execution.arn).checkpointToken(token).clientToken(client)
        .updates(all)).checkpointToken();
  }

  /** A refusal has to be a class of the client, and say so in these words. */
  private static void refused(boolean stale, Runnable request) {
    try {
      request.run();
    } catch (InvalidParameterValueException refusal) {
      check(Execution.stale(refusal) == stale, refusal);
      return;
    }
    throw new IllegalStateException("it was not refused");
  }

  /** Tokens are good for one checkpoint, except that a repeated request gets the answer it missed. */
  private static Object tokens(Place place) {
    String arn = place.execution.arn;
    String first = place.execution.token();
    var updates = steps(place, 1, "1");
    String second = write(place, first, "the-same-request", updates);
    String again = write(place, first, "the-same-request", updates);
    check(second.equals(again), "a repeated request got another answer");
    refused(true, () -> write(place, first, null, List.of()));
    refused(true, () -> CLIENT.getDurableExecutionState(
        it -> it.durableExecutionArn(arn).checkpointToken(first)));
    refused(true, () -> CLIENT.checkpointDurableExecution(
        it -> it.durableExecutionArn(arn + "0").checkpointToken(second)));
    // What is wrong with a batch is no fault of its token, which stays good.
    var wait = place.update(place.next(), OperationType.WAIT, OperationAction.START, null, "Wait");
    refused(false, () -> write(place, second, null, List.of(wait.build())));
    check(write(place, second, null, List.of()) != null, "a checkpoint of nothing got no token");
    return "as expected";
  }

  /** Goes on after its execution was stopped, and writes down what it is told. */
  private static Object stopped(Place place, String key) throws Exception {
    Handlers.ledger(key, "runs", "begin");
    while (CLIENT.getDurableExecution(it -> it.durableExecutionArn(place.execution.arn)).status()
        == ExecutionStatus.RUNNING) {
      Thread.sleep(20);
    }
    refused(true, () -> write(place, place.execution.token(), null, List.of()));
    Handlers.ledger(key, "stale", "end");
    return "nobody hears this";
  }

  /** Records a result that is too long for an answer. */
  private static Object large(Place place) {
    try {
      place.execution.checkpoint(OperationUpdate.builder()
          .id(place.execution.root.id()).type(OperationType.EXECUTION)
          .action(OperationAction.SUCCEED).payload("\"" + "x".repeat(LARGE) + "\"").build());
    } catch (Execution.Suspended noToken) {
      return "";
    }
    throw new IllegalStateException("there is a token for an execution that is over");
  }

  private static CallbackOptions options(JsonNode input) {
    // Without any the official SDK sends an empty object.
    return CallbackOptions.builder()
        .timeoutSeconds(input.has("timeout") ? input.get("timeout").intValue() : null)
        .build();
  }

  private interface Question {
    JsonNode ask() throws Exception;
  }

  private static Object told(Question question) throws Exception {
    var said = new HashMap<String, Object>();
    try {
      said.putAll(Map.of("status", "SUCCEEDED", "result", question.ask()));
    } catch (Place.Failed failed) {
      said.put("status", failed.status.toString());
      said.put("type", failed.error.errorType());
    }
    return JSON.valueToTree(said);
  }
}
