package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

type steps struct {
	Key   string `json:"key"`
	Steps int    `json:"steps"`
}

func executions() {
	reply := call("Chain", steps{key(), 3})
	check(reply.StatusCode == 200 && reply.FunctionError == nil, reply)
	check(string(reply.Payload) == "3" && *reply.ExecutedVersion == "$LATEST", reply)
	described := describe(reply.DurableExecutionArn)
	check(described.Status == types.ExecutionStatusSucceeded && *described.Result == "3", described)
	check(strings.HasSuffix(*described.FunctionArn, ":function:Chain:$LATEST"), *described.FunctionArn)
	took := described.EndTimestamp.Sub(*described.StartTimestamp)
	check(took > 0 && took < time.Minute, took)
	check(time.Since(*described.StartTimestamp) < time.Minute, described.StartTimestamp)
	check(*described.DurableConfig.ExecutionTimeout == 300 && *described.ExecutionDataIncluded, described)
	bare := must(client.GetDurableExecution(ctx, &lambda.GetDurableExecutionInput{
		DurableExecutionArn: reply.DurableExecutionArn, IncludeExecutionData: aws.Bool(false),
	}))
	check(bare.Result == nil && bare.InputPayload == nil && !*bare.ExecutionDataIncluded, bare)

	failed := call("Fails", nil)
	check(*failed.FunctionError == "Unhandled", failed)
	var document struct{ ErrorType, ErrorMessage string }
	check(json.Unmarshal(failed.Payload, &document) == nil, string(failed.Payload))
	check(document.ErrorType == "HandlerError" && document.ErrorMessage == "as it was told", document)
	why := describe(failed.DurableExecutionArn).Error
	check(*why.ErrorType == "HandlerError" && len(why.StackTrace) == 2 && why.ErrorData == nil, why)

	plain := must(client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: aws.String("Double"), Payload: []byte(`{"n":4}`),
	}))
	check(string(plain.Payload) == `{"n":8}` && plain.DurableExecutionArn == nil, plain)
	dry := must(client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: aws.String("Everything:live"), InvocationType: types.InvocationTypeDryRun,
	}))
	check(dry.StatusCode == 204, dry)

	_, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("nobody")})
	refused[*types.ResourceNotFoundException](err)
	nobody := aws.String(*reply.DurableExecutionArn + "0")
	_, err = client.GetDurableExecution(ctx, &lambda.GetDurableExecutionInput{DurableExecutionArn: nobody})
	refused[*types.ResourceNotFoundException](err)
}

func histories() {
	arn := start("Chain", steps{key(), 2})
	ended(arn)
	events := history(arn, false)
	var kinds []string
	for number, event := range events {
		check(*event.EventId == int32(number)+1, "event", number, "has the number", *event.EventId)
		check(number == 0 || !event.EventTimestamp.Before(*events[number-1].EventTimestamp), event)
		kinds = append(kinds, string(event.EventType))
	}
	check(slices.Equal(kinds, []string{
		"ExecutionStarted", "StepStarted", "StepSucceeded", "StepStarted", "StepSucceeded",
		"InvocationCompleted", "ExecutionSucceeded",
	}), kinds)
	step := events[2]
	check(*step.Name == "link-0" && *step.SubType == "Step" && step.ParentId == nil, step)
	check(*step.StepSucceededDetails.Result.Payload == "0", step.StepSucceededDetails.Result)
	check(*events[0].ExecutionStartedDetails.ExecutionTimeout == 300, events[0])
	check(*events[5].InvocationCompletedDetails.RequestId != "", events[5])
	check(*events[6].ExecutionSucceededDetails.Result.Payload == "1", events[6])
	backwards := history(arn, true)
	slices.Reverse(backwards)
	check(len(backwards) == len(events), backwards)
	for number := range events {
		check(*backwards[number].EventId == *events[number].EventId, backwards)
	}
}

func lists() {
	before := time.Now()
	// The bound itself does not count.
	time.Sleep(2 * time.Millisecond)
	var started []string
	for range 3 {
		started = append(started, *call("Chain", steps{key(), 1}).DurableExecutionArn)
	}
	list := func(input lambda.ListDurableExecutionsByFunctionInput) (found []string) {
		input.FunctionName, input.MaxItems = aws.String("Chain"), 2
		pages := lambda.NewListDurableExecutionsByFunctionPaginator(client, &input)
		for pages.HasMorePages() {
			for _, execution := range must(pages.NextPage(ctx)).DurableExecutions {
				check(execution.StartTimestamp != nil && execution.EndTimestamp != nil, execution)
				found = append(found, *execution.DurableExecutionArn)
			}
		}
		return found
	}
	ends := []types.ExecutionStatus{types.ExecutionStatusSucceeded, types.ExecutionStatusFailed}
	input := lambda.ListDurableExecutionsByFunctionInput{
		StartedAfter: &before, Statuses: ends, ReverseOrder: aws.Bool(true),
	}
	check(slices.Equal(list(input), started), list(input), started)
	input.ReverseOrder = nil
	newest := list(input)
	slices.Reverse(newest)
	check(slices.Equal(newest, started), newest, started)
	name := describe(&started[1]).DurableExecutionName
	named := list(lambda.ListDurableExecutionsByFunctionInput{DurableExecutionName: name})
	check(slices.Equal(named, started[1:2]), named)
	none := list(lambda.ListDurableExecutionsByFunctionInput{
		Statuses: []types.ExecutionStatus{types.ExecutionStatusTimedOut},
	})
	check(len(none) == 0, none)
	_, err := client.ListDurableExecutionsByFunction(ctx, &lambda.ListDurableExecutionsByFunctionInput{
		FunctionName: aws.String("nobody"),
	})
	refused[*types.ResourceNotFoundException](err)
}

// A name is the execution's, for good: the same call again finds it, another one is refused.
func names() {
	name := key()
	named := func(payload any) (*lambda.InvokeOutput, error) {
		return client.Invoke(ctx, &lambda.InvokeInput{
			FunctionName: aws.String("Chain"), Qualifier: latest, DurableExecutionName: &name,
			Payload: written(payload),
		})
	}
	first := must(named(steps{name, 1}))
	again := must(named(steps{name, 1}))
	check(*first.DurableExecutionArn == *again.DurableExecutionArn, again)
	check(string(again.Payload) == "0", string(again.Payload))
	_, err := named(steps{name, 2})
	refused[*types.DurableExecutionAlreadyStartedException](err)
}

type outcome struct {
	Status, Type, Text string
	Result             json.RawMessage
}

func callbacks() {
	type options struct{ TimeoutSeconds, HeartbeatTimeoutSeconds int }
	ask := func(with any) (arn, id *string) {
		arn = start("Asks", with)
		id = event(arn, types.EventTypeCallbackStarted).CallbackStartedDetails.CallbackId
		// Not before the handler waits for it, so that it has to be woken.
		event(arn, types.EventTypeInvocationCompleted)
		return arn, id
	}
	succeed := func(id *string, result []byte) error {
		_, err := client.SendDurableExecutionCallbackSuccess(ctx,
			&lambda.SendDurableExecutionCallbackSuccessInput{CallbackId: id, Result: result})
		return err
	}
	fail := func(id *string, why *types.ErrorObject) error {
		_, err := client.SendDurableExecutionCallbackFailure(ctx,
			&lambda.SendDurableExecutionCallbackFailureInput{CallbackId: id, Error: why})
		return err
	}
	beat := func(id *string) error {
		_, err := client.SendDurableExecutionCallbackHeartbeat(ctx,
			&lambda.SendDurableExecutionCallbackHeartbeatInput{CallbackId: id})
		return err
	}
	arn, id := ask(options{60, 30})
	check(beat(id) == nil, "a heartbeat")
	check(succeed(id, []byte(`{"yes":["ü"]}`)) == nil, "an answer")
	said(arn, "SUCCEEDED", "", "", `{"yes":["ü"]}`)
	refused[*types.CallbackTimeoutException](succeed(id, []byte("2")))
	refused[*types.CallbackTimeoutException](beat(id))

	arn, id = ask(nil)
	check(succeed(id, nil) == nil, "an answer without a result")
	said(arn, "SUCCEEDED", "", "", "null")

	arn, id = ask(nil)
	why := types.ErrorObject{
		ErrorType: aws.String("Refused"), ErrorMessage: aws.String("not today"),
		ErrorData: aws.String("{}"), StackTrace: []string{"a", "b"},
	}
	check(fail(id, &why) == nil, "a refusal")
	said(arn, "FAILED", "Refused", "not today", "")
	told := event(arn, types.EventTypeCallbackFailed).CallbackFailedDetails.Error.Payload
	check(slices.Equal(told.StackTrace, why.StackTrace) && *told.ErrorData == "{}", told)

	arn, id = ask(nil)
	check(fail(id, nil) == nil, "a refusal without a reason")
	said(arn, "FAILED", "", "", "")

	arn, id = ask(options{1, 0})
	said(arn, "TIMED_OUT", "Callback.Timeout", "", "")
	arn, _ = ask(options{60, 1})
	said(arn, "TIMED_OUT", "Callback.Heartbeat", "", "")
	refused[*types.CallbackTimeoutException](fail(id, &why))
	refused[*types.InvalidParameterValueException](succeed(aws.String("none"), nil))
}

// How a function says that an operation ended. Texts are compared where there is one to compare with.
func said(arn *string, status, kind, text, result string) {
	described := ended(arn)
	check(described.Status == types.ExecutionStatusSucceeded, described.Error)
	var got outcome
	check(json.Unmarshal([]byte(*described.Result), &got) == nil, *described.Result)
	check(got.Status == status && got.Type == kind && string(got.Result) == result, *described.Result)
	check(text == "" || got.Text == text, got.Text)
}

func stops() {
	arn := start("Asks", nil)
	event(arn, types.EventTypeCallbackStarted)
	why := types.ErrorObject{ErrorType: aws.String("Enough"), ErrorMessage: aws.String("no more")}
	stop := func() (*lambda.StopDurableExecutionOutput, error) {
		return client.StopDurableExecution(ctx, &lambda.StopDurableExecutionInput{
			DurableExecutionArn: arn, Error: &why,
		})
	}
	at := must(stop()).StopTimestamp
	described := describe(arn)
	check(described.Status == types.ExecutionStatusStopped && *described.Error.ErrorType == "Enough",
		described)
	check(described.EndTimestamp.Equal(*at), described.EndTimestamp, at)
	check(must(stop()).StopTimestamp.Equal(*at), "another time of the same stop")
	_, err := client.StopDurableExecution(ctx, &lambda.StopDurableExecutionInput{
		DurableExecutionArn: aws.String(*arn + "0"),
	})
	refused[*types.ResourceNotFoundException](err)

	// A handler that goes on is told that its token is worth nothing, and nobody hears its answer.
	name := key()
	arn = start("Stopped", steps{name, 0})
	noted := func(what string) func() *bool {
		return func() *bool {
			known, _ := os.ReadFile(os.Getenv("LEDGER"))
			if strings.Contains(string(known), name+" "+what) {
				return aws.Bool(true)
			}
			return nil
		}
	}
	until("the handler", noted("runs begin"))
	must(stop())
	until("what the handler was told", noted("stale end"))
	event(arn, types.EventTypeInvocationCompleted)
	described = describe(arn)
	check(described.Status == types.ExecutionStatusStopped && described.Result == nil, described)
}

func invokes() {
	type call struct {
		Function string
		Payload  any
	}
	said(start("Calls", call{"DOUBLE", map[string]int{"n": 2}}), "SUCCEEDED", "", "", `{"n":4}`)
	said(start("Calls", call{"CHAIN", steps{key(), 3}}), "SUCCEEDED", "", "", "3")
	said(start("Calls", call{"FAILS", nil}), "FAILED", "HandlerError", "as it was told", "")
	// A plain function that cannot read its event fails with an error of its runtime.
	said(start("Calls", call{"DOUBLE", "text"}), "FAILED", "UnmarshalTypeError", "", "")
	said(start("Calls", call{"nobody", nil}), "FAILED", "ResourceNotFoundException", "", "")
	arn := start("Calls", call{"ASKS", nil})
	below := event(arn, types.EventTypeChainedInvokeStarted).ChainedInvokeStartedDetails
	check(below.DurableExecutionArn != nil && *below.ExecutedVersion == "$LATEST", below)
	must(client.StopDurableExecution(ctx, &lambda.StopDurableExecutionInput{
		DurableExecutionArn: below.DurableExecutionArn,
		Error:               &types.ErrorObject{ErrorType: aws.String("Enough")},
	}))
	said(arn, "STOPPED", "Enough", "", "")
}

// What the handlers in ../worker/probes.go look at themselves.
func protocol() {
	reply := call("Tokens", nil)
	check(string(reply.Payload) == `"as expected"`, string(reply.Payload))
	reply = call("Pages", nil)
	var read struct{ Pages, More int }
	check(json.Unmarshal(reply.Payload, &read) == nil && reply.FunctionError == nil, string(reply.Payload))
	check(read.Pages > 0 && read.More == 0, string(reply.Payload))
}

// A result that is too long for an answer is recorded by a checkpoint. What the handler says then is
// not heard, though it be that the execution waits, or nothing at all.
func results() {
	for _, answer := range []string{"SUCCEEDED", "PENDING", "FAILED", ""} {
		reply := call("Large", map[string]string{"answer": answer})
		check(reply.FunctionError == nil && len(reply.Payload) == 6*1024*1024-18, answer, len(reply.Payload))
		// Once more, when that invocation is over too.
		event(reply.DurableExecutionArn, types.EventTypeInvocationCompleted)
		described := describe(reply.DurableExecutionArn)
		check(described.Status == types.ExecutionStatusSucceeded, answer, described.Error)
		check(len(*described.Result) == len(reply.Payload), answer)
	}
}
