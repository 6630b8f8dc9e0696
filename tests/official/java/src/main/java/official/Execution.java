package official;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import com.fasterxml.jackson.databind.module.SimpleModule;
import java.io.IOException;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import software.amazon.awssdk.services.lambda.LambdaClient;
import software.amazon.awssdk.services.lambda.model.CheckpointDurableExecutionResponse;
import software.amazon.awssdk.services.lambda.model.CheckpointUpdatedExecutionState;
import software.amazon.awssdk.services.lambda.model.InvalidParameterValueException;
import software.amazon.awssdk.services.lambda.model.Operation;
import software.amazon.awssdk.services.lambda.model.OperationType;
import software.amazon.awssdk.services.lambda.model.OperationUpdate;

/** An execution as one invocation knows it: what it was given, and what it has written since. */
final class Execution {
  static final ObjectMapper JSON = new ObjectMapper();
  static final LambdaClient CLIENT = LambdaClient.create();
  private static final ObjectMapper EVENT = event();

  final String arn;
  final Operation root;
  final Map<String, Operation> operations = new ConcurrentHashMap<>();
  int pages;
  private String token;

  /** What unwinds a handler that has to wait. */
  static final class Suspended extends RuntimeException {}

  /** Reads the state: the first page is in the event, the others are asked for. */
  Execution(byte[] event) throws IOException {
    JsonNode given = JSON.readTree(event);
    arn = given.required("DurableExecutionArn").textValue();
    token = given.required("CheckpointToken").textValue();
    given.required("UpdatedOperationIds");
    CheckpointUpdatedExecutionState state = state(given.required("InitialExecutionState"));
    state.operations().forEach(this::add);
    for (String marker = state.nextMarker(); marker != null && !marker.isEmpty(); pages++) {
      String from = marker;
      var page = CLIENT.getDurableExecutionState(
          it -> it.durableExecutionArn(arn).checkpointToken(token).marker(from));
      page.operations().forEach(this::add);
      marker = page.nextMarker();
    }
    // The official SDK finds it by the end of the ARN, wherever it stands.
    root = operations.get(arn.substring(arn.lastIndexOf('/') + 1));
    if (root == null || root.type() != OperationType.EXECUTION || root.executionDetails() == null) {
      throw new IllegalStateException("there is no operation for the execution: " + root);
    }
  }

  /** Pages may not overlap: the official SDK makes a map of them that allows no id twice. */
  private void add(Operation operation) {
    if (operations.put(operation.id(), operation) != null) {
      throw new IllegalStateException(operation.id() + " is there twice");
    }
  }

  JsonNode input() throws IOException {
    return JSON.readTree(root.executionDetails().inputPayload());
  }

  String token() {
    return token;
  }

  /** Writes updates, and learns what else has changed. One at a time: each rotates the token. */
  synchronized void checkpoint(OperationUpdate... updates) {
    CheckpointDurableExecutionResponse written = CLIENT.checkpointDurableExecution(
        it -> it.durableExecutionArn(arn).checkpointToken(token).updates(List.of(updates)));
    token = written.checkpointToken();
    if (token == null) {
      throw new Suspended();
    }
    for (Operation operation : written.newExecutionState().operations()) {
      operations.put(operation.id(), operation);
    }
  }

  static boolean stale(RuntimeException error) {
    return error instanceof InvalidParameterValueException refused
        && refused.statusCode() == 400
        && refused.awsErrorDetails().errorCode().equals("InvalidParameterValueException")
        && refused.getMessage().startsWith("Invalid checkpoint token");
  }

  /** The classes of the AWS SDK, filled by their setters as the official SDK does it. */
  private static CheckpointUpdatedExecutionState state(JsonNode given) throws IOException {
    var builder = CheckpointUpdatedExecutionState.serializableBuilderClass();
    return EVENT.treeToValue(given, builder).build();
  }

  /** Times are milliseconds in an event, and nothing but a whole number will do. */
  private static ObjectMapper event() {
    var times = new StdDeserializer<Instant>(Instant.class) {
      @Override
      public Instant deserialize(JsonParser at, DeserializationContext context) throws IOException {
        if (!at.currentToken().isNumeric() || at.getNumberType() == JsonParser.NumberType.DOUBLE) {
          throw new IOException("a time is " + at.getText());
        }
        return Instant.ofEpochMilli(at.getLongValue());
      }
    };
    return new ObjectMapper()
        .setPropertyNamingStrategy(PropertyNamingStrategies.UPPER_CAMEL_CASE)
        .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)
        .registerModule(new SimpleModule().addDeserializer(Instant.class, times));
  }
}
