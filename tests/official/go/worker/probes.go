package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
)

// The handlers of this file look at the protocol itself, and fail with what they do not expect.

func steps(p *place, count int, payload string) []types.OperationUpdate {
	var updates []types.OperationUpdate
	for range count {
		id := p.next()
		kind := types.OperationTypeStep
		updates = append(updates, p.update(id, kind, types.OperationActionStart, "", "Step"))
		end := p.update(id, kind, types.OperationActionSucceed, "", "Step")
		end.Payload = &payload
		updates = append(updates, end)
	}
	return updates
}

// More state than an invocation can carry: the rest comes in pages, which neither overlap nor end
// early. What the event and the API say about the same operation is the same.
func pages(p *place) (any, error) {
	const batches, each, most = 12, 5, 125
	payload := strings.Repeat("x", 100*1024)
	for range batches {
		updates := steps(p, each, payload)
		if p.operation(*updates[0].Id) == nil {
			if err := p.checkpoint(p, updates...); err != nil {
				return nil, err
			}
		}
	}
	// As many updates in one checkpoint as official SDKs send.
	updates := steps(p, most, "1")
	if p.operation(*updates[0].Id) == nil {
		if err := p.checkpoint(p, updates...); err != nil {
			return nil, err
		}
	}
	if err := p.wait("", 1); err != nil {
		return nil, err
	}
	for id, known := range p.operations {
		if known.StepDetails != nil && known.Status != types.OperationStatusSucceeded {
			return nil, fmt.Errorf("%s is %s", id, known.Status)
		}
	}
	if wanted := batches*each + most + 2; len(p.operations) != wanted {
		return nil, fmt.Errorf("%d operations instead of %d", len(p.operations), wanted)
	}
	// Without a marker from the very first, as some SDKs read it.
	seen := 0
	reader := lambda.NewGetDurableExecutionStatePaginator(p.client,
		&lambda.GetDurableExecutionStateInput{
			DurableExecutionArn: &p.arn, CheckpointToken: &p.token, MaxItems: 50,
		})
	for reader.HasMorePages() {
		page, err := reader.NextPage(p)
		if err != nil {
			return nil, err
		}
		for _, operation := range page.Operations {
			known := p.operation(*operation.Id)
			if known == nil || known.Status != operation.Status ||
				!known.StartTimestamp.Equal(*operation.StartTimestamp) {
				return nil, fmt.Errorf("%+v is said to be %+v", known, operation)
			}
			seen++
		}
	}
	return map[string]int{"pages": p.pages, "more": len(p.operations) - seen}, nil
}

// A refusal has to be a class of the client, the sender's fault, and say so in these words.
func refusal(err error, stale bool) error {
	var invalid *types.InvalidParameterValueException
	if !errors.As(err, &invalid) || invalid.ErrorFault() != smithy.FaultClient {
		return fmt.Errorf("another error was expected: %w", err)
	}
	if isStale(err) != stale {
		return fmt.Errorf("other words were expected: %w", err)
	}
	return nil
}

// Tokens are good for one checkpoint, except that a repeated request gets the answer it missed.
func tokens(p *place) (any, error) {
	write := func(token, client *string, updates ...types.OperationUpdate) (*string, error) {
		written, err := p.client.CheckpointDurableExecution(p, &lambda.CheckpointDurableExecutionInput{
			DurableExecutionArn: &p.arn, CheckpointToken: token, ClientToken: client, Updates: updates,
		})
		if err != nil {
			return nil, err
		}
		return written.CheckpointToken, nil
	}
	look := func(token *string) error {
		_, err := p.client.GetDurableExecutionState(p, &lambda.GetDurableExecutionStateInput{
			DurableExecutionArn: &p.arn, CheckpointToken: token,
		})
		return err
	}
	first, again := aws.String(p.token), aws.String("the-same-request")
	second, err := write(first, again, steps(p, 1, "1")...)
	if err != nil {
		return nil, err
	}
	p.number--
	repeated, err := write(first, again, steps(p, 1, "1")...)
	if err != nil || *repeated != *second {
		return nil, fmt.Errorf("a repeated request got another answer (%w)", err)
	}
	_, err = write(first, nil)
	if err := refusal(err, true); err != nil {
		return nil, err
	}
	if err := refusal(look(first), true); err != nil {
		return nil, err
	}
	elsewhere := p.arn + "0"
	_, err = p.client.CheckpointDurableExecution(p, &lambda.CheckpointDurableExecutionInput{
		DurableExecutionArn: &elsewhere, CheckpointToken: second,
	})
	if err := refusal(err, true); err != nil {
		return nil, err
	}
	// What is wrong with a batch is no fault of its token, which stays good.
	bad := p.update(p.next(), types.OperationTypeWait, types.OperationActionStart, "", "Wait")
	_, err = write(second, nil, bad)
	if err := refusal(err, false); err != nil {
		return nil, err
	}
	if err := look(second); err != nil {
		return nil, err
	}
	third, err := write(second, nil)
	if err != nil || aws.ToString(third) == "" {
		return nil, fmt.Errorf("a checkpoint of nothing got no token (%w)", err)
	}
	return "as expected", nil
}

// Goes on after its execution was stopped, and writes down what it is told.
func stopped(p *place) (any, error) {
	var of event
	if err := p.event(&of); err != nil {
		return nil, err
	}
	ledger(of.Key, "runs", "begin")
	for {
		described, err := p.client.GetDurableExecution(p, &lambda.GetDurableExecutionInput{
			DurableExecutionArn: &p.arn,
		})
		if err != nil {
			return nil, err
		}
		if described.Status != types.ExecutionStatusRunning {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	err := p.checkpoint(p, steps(p, 1, "1")...)
	told := "another"
	if refusal(err, true) == nil {
		told = "stale"
	}
	ledger(of.Key, told, "end")
	return "nobody hears this", nil
}

// Records a result that is too long for an answer, and then answers in each of the ways that SDKs
// do. The execution is over by then, whatever is said.
type large struct{}

func (large) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	execution, err := begin(ctx, event)
	if err != nil {
		return nil, err
	}
	var of struct{ Answer string }
	if err := execution.event(&of); err != nil {
		return nil, err
	}
	id := execution.first.InitialExecutionState.Operations[0].Id
	result := `"` + strings.Repeat("x", 6*1024*1024-20) + `"`
	written, err := execution.client.CheckpointDurableExecution(ctx,
		&lambda.CheckpointDurableExecutionInput{
			DurableExecutionArn: &execution.arn, CheckpointToken: &execution.token,
			Updates: []types.OperationUpdate{{
				Id: &id, Type: types.OperationTypeExecution, Action: types.OperationActionSucceed,
				Payload: &result,
			}},
		})
	if err != nil {
		return nil, err
	}
	if written.CheckpointToken != nil {
		return nil, errors.New("there is a token for an execution that is over")
	}
	if of.Answer == "" {
		return nil, errors.New("no token")
	}
	return json.Marshal(answer{Status: of.Answer})
}

// Waits for a callback, and says how that ended.
func asks(p *place) (any, error) {
	var options *types.CallbackOptions
	if err := p.event(&options); err != nil {
		return nil, err
	}
	_, result, err := p.callback("question", options)
	if err != nil {
		return nil, err
	}
	var answer json.RawMessage
	return told(result(&answer), answer)
}

// Invokes a function, and says how that ended.
func calls(p *place) (any, error) {
	var of struct {
		Function string
		Payload  json.RawMessage
	}
	if err := p.event(&of); err != nil {
		return nil, err
	}
	var answer json.RawMessage
	if function := os.Getenv(of.Function); function != "" {
		of.Function = function
	}
	return told(p.invoke("call", of.Function, of.Payload, &answer), answer)
}

func told(err error, result json.RawMessage) (any, error) {
	var ended *recorded
	if errors.As(err, &ended) {
		return map[string]any{"status": ended.status, "type": ended.kind, "text": ended.text}, nil
	}
	return map[string]any{"status": "SUCCEEDED", "result": result}, err
}
