package official;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.lambda.model.CallbackOptions;
import software.amazon.awssdk.services.lambda.model.ErrorObject;
import software.amazon.awssdk.services.lambda.model.Operation;
import software.amazon.awssdk.services.lambda.model.OperationAction;
import software.amazon.awssdk.services.lambda.model.OperationStatus;
import software.amazon.awssdk.services.lambda.model.OperationType;
import software.amazon.awssdk.services.lambda.model.OperationUpdate;

/** Where operations of a handler stand: at the top, or in a context. */
final class Place {
  final Execution execution;
  private final String path;
  private final String parent;
  private int number;

  Place(Execution execution, String path, String parent) {
    this.execution = execution;
    this.path = path;
    this.parent = parent;
  }

  interface Body<T> {
    Object run(T with) throws Exception;
  }

  /** What an operation failed with, as it was recorded. */
  static final class Failed extends RuntimeException {
    final OperationStatus status;
    final ErrorObject error;

    Failed(OperationStatus status, ErrorObject error) {
      super(status + ": " + error);
      this.status = status;
      this.error = error == null ? ErrorObject.builder().build() : error;
    }
  }

  static ErrorObject problem(Exception error) {
    return ErrorObject.builder()
        .errorType("HandlerError")
        .errorMessage(error.getMessage())
        .stackTrace("Place.java", "Handlers.java")
        .build();
  }

  String next() {
    number++;
    return UUID.nameUUIDFromBytes((path + "-" + number).getBytes()).toString();
  }

  OperationUpdate.Builder update(
      String id, OperationType type, OperationAction action, String name, String subType) {
    return OperationUpdate.builder()
        .id(id).type(type).action(action).name(name).subType(subType).parentId(parent);
  }

  /** The step until it is recorded; up to three attempts, a second apart. */
  JsonNode step(String name, Body<Integer> body) throws Exception {
    String id = next();
    var of = OperationType.STEP;
    Operation known = execution.operations.get(id);
    if (known == null || known.status() == OperationStatus.READY) {
      execution.checkpoint(update(id, of, OperationAction.START, name, "Step").build());
      known = execution.operations.get(id);
    }
    if (known.status() == OperationStatus.PENDING) {
      if (known.stepDetails().nextAttemptTimestamp() == null) {
        throw new IllegalStateException("nobody says when " + name + " is tried again");
      }
      throw new Execution.Suspended();
    }
    if (known.status() == OperationStatus.STARTED) {
      // Those that are over.
      Integer over = known.stepDetails() == null ? null : known.stepDetails().attempt();
      int attempt = 1 + (over == null ? 0 : over);
      try {
        Object result = body.run(attempt);
        var end = update(id, of, OperationAction.SUCCEED, name, "Step");
        execution.checkpoint(end.payload(Execution.JSON.writeValueAsString(result)).build());
      } catch (SdkException | Execution.Suspended passed) {
        throw passed;
      } catch (Exception error) {
        if (attempt < 3) {
          execution.checkpoint(update(id, of, OperationAction.RETRY, name, "Step")
              .error(problem(error)).stepOptions(it -> it.nextAttemptDelaySeconds(1)).build());
          throw new Execution.Suspended();
        }
        var end = update(id, of, OperationAction.FAIL, name, "Step");
        execution.checkpoint(end.error(problem(error)).build());
      }
      known = execution.operations.get(id);
    }
    return ended(known, known.stepDetails().result(), known.stepDetails().error());
  }

  private JsonNode ended(Operation known, String result, ErrorObject error) throws Exception {
    return switch (known.status()) {
      case STARTED -> throw new Execution.Suspended();
      case SUCCEEDED -> result == null ? Execution.JSON.nullNode() : Execution.JSON.readTree(result);
      default -> throw new Failed(known.status(), error);
    };
  }

  /** Starts an operation that others end, if it is not known yet. */
  private Operation started(
      OperationType type, String name, String subType, Consumer<OperationUpdate.Builder> more) {
    String id = next();
    if (!execution.operations.containsKey(id)) {
      var start = update(id, type, OperationAction.START, name, subType);
      more.accept(start);
      execution.checkpoint(start.build());
    }
    return execution.operations.get(id);
  }

  void wait(String name, int seconds) throws Exception {
    var known = started(OperationType.WAIT, name, "Wait",
        it -> it.waitOptions(options -> options.waitSeconds(seconds)));
    if (known.waitDetails().scheduledEndTimestamp() == null) {
      throw new IllegalStateException("nobody says when " + name + " ends");
    }
    ended(known, null, null);
  }

  record Callback(Place place, Operation known) {
    JsonNode result() throws Exception {
      var details = known.callbackDetails();
      return place.ended(known, details.result(), details.error());
    }
  }

  Callback callback(String name, CallbackOptions options) {
    var known = started(
        OperationType.CALLBACK, name, "Callback", it -> it.callbackOptions(options));
    if (known.callbackDetails().callbackId().isEmpty()) {
      throw new IllegalStateException("the callback " + name + " has no id");
    }
    return new Callback(this, known);
  }

  JsonNode invoke(String name, String function, Object payload) throws Exception {
    String text = Execution.JSON.writeValueAsString(payload);
    var known = started(OperationType.CHAINED_INVOKE, name, "ChainedInvoke",
        it -> it.payload(text).chainedInvokeOptions(options -> options.functionName(function)));
    var details = known.chainedInvokeDetails();
    return details == null
        ? ended(known, null, null)
        : ended(known, details.result(), details.error());
  }

  /** A block with operations of its own, recorded as one. */
  JsonNode child(String name, String subType, Body<Place> body) throws Exception {
    var known = started(OperationType.CONTEXT, name, subType, it -> {});
    String id = known.id();
    if (known.status() == OperationStatus.STARTED) {
      var of = OperationType.CONTEXT;
      try {
        Object result = body.run(new Place(execution, id, id));
        var end = update(id, of, OperationAction.SUCCEED, name, subType);
        execution.checkpoint(end.payload(Execution.JSON.writeValueAsString(result)).build());
      } catch (SdkException | Execution.Suspended passed) {
        throw passed;
      } catch (Exception error) {
        var end = update(id, of, OperationAction.FAIL, name, subType);
        execution.checkpoint(end.error(problem(error)).build());
      }
      known = execution.operations.get(id);
    }
    return ended(known, known.contextDetails().result(), known.contextDetails().error());
  }

  /** Branches side by side, each in a context of its own. They may not wait. */
  JsonNode all(String name, String subType, String inner, List<Body<Place>> bodies) throws Exception {
    return child(name, subType, within -> {
      var branches = new ArrayList<CompletableFuture<JsonNode>>();
      for (Body<Place> body : bodies) {
        // Paths of their own, so that the order in which they run means nothing.
        var branch = new Place(execution, within.path + "/" + branches.size(), within.parent);
        branches.add(CompletableFuture.supplyAsync(() -> {
          try {
            return branch.child(null, inner, body);
          } catch (Exception error) {
            throw new CompletionException(error);
          }
        }));
      }
      return branches.stream().map(CompletableFuture::join).toList();
    });
  }
}
