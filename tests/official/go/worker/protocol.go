package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
)

// What an invocation is given, with the types that its JSON has to have. Go's decoder refuses a
// number where a text should be, and the other way round; times are milliseconds here, and seconds
// in the API.
type invocation struct {
	DurableExecutionArn   string
	CheckpointToken       string
	UpdatedOperationIds   []string
	InitialExecutionState struct {
		Operations []given
		NextMarker string
	}
}

type given struct {
	Id, ParentId, Name, Type, SubType, Status string
	StartTimestamp, EndTimestamp              *int64
	ExecutionDetails                          *struct{ InputPayload string }
	StepDetails                               *struct {
		Attempt              int32
		NextAttemptTimestamp *int64
		Result               *string
		Error                *failure
	}
	WaitDetails          *struct{ ScheduledEndTimestamp *int64 }
	CallbackDetails      *ending
	ChainedInvokeDetails *ending
	ContextDetails       *ending
}

type ending struct {
	CallbackId     string
	ReplayChildren bool
	Result         *string
	Error          *failure
}

type failure struct {
	ErrorType, ErrorMessage string
	ErrorData               *string  `json:",omitempty"`
	StackTrace              []string `json:",omitempty"`
}

// What an invocation answers.
type answer struct {
	Status string
	Result *string  `json:",omitempty"`
	Error  *failure `json:",omitempty"`
}

// What unwinds a handler that has to wait.
var errSuspended = errors.New("the execution waits")

// An execution as one invocation knows it.
type execution struct {
	arn    string
	input  []byte
	first  invocation
	client *lambda.Client

	// One checkpoint at a time: each needs the token that the one before it got.
	writing sync.Mutex
	token   string

	reading    sync.Mutex
	operations map[string]types.Operation
	pages      int
}

func newClient() *lambda.Client {
	environment := os.Getenv
	return lambda.New(lambda.Options{
		Region:       environment("AWS_REGION"),
		BaseEndpoint: aws.String(environment("AWS_ENDPOINT_URL_LAMBDA")),
		Credentials: credentials.NewStaticCredentialsProvider(
			environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
			environment("AWS_SESSION_TOKEN")),
	})
}

// Reads the state: the first page is in the event, the others are asked for.
func begin(ctx context.Context, event []byte) (*execution, error) {
	e := &execution{client: newClient(), operations: map[string]types.Operation{}}
	if err := json.Unmarshal(event, &e.first); err != nil {
		return nil, fmt.Errorf("the event cannot be read: %w", err)
	}
	e.arn, e.token = e.first.DurableExecutionArn, e.first.CheckpointToken
	state := e.first.InitialExecutionState
	if e.arn == "" || e.token == "" || len(state.Operations) == 0 {
		return nil, errors.New("this is not the event of a durable execution")
	}
	root := state.Operations[0]
	id := e.arn[strings.LastIndex(e.arn, "/")+1:]
	if root.Type != "EXECUTION" || root.Id != id || root.ExecutionDetails == nil {
		return nil, fmt.Errorf("the first operation is not the execution: %+v", root)
	}
	e.input = []byte(root.ExecutionDetails.InputPayload)
	for _, operation := range state.Operations {
		if err := e.add(operation.converted()); err != nil {
			return nil, err
		}
	}
	for marker := state.NextMarker; marker != ""; e.pages++ {
		page, err := e.client.GetDurableExecutionState(ctx, &lambda.GetDurableExecutionStateInput{
			DurableExecutionArn: &e.arn, CheckpointToken: &e.token, Marker: &marker,
		})
		if err != nil {
			return nil, err
		}
		for _, operation := range page.Operations {
			if err := e.add(operation); err != nil {
				return nil, err
			}
		}
		marker = aws.ToString(page.NextMarker)
	}
	for _, changed := range e.first.UpdatedOperationIds {
		if _, known := e.operations[changed]; !known {
			return nil, fmt.Errorf("%s is said to have changed, and is not there", changed)
		}
	}
	return e, nil
}

// Pages may not overlap: official SDKs make a map of them that allows no id twice.
func (e *execution) add(operation types.Operation) error {
	id := aws.ToString(operation.Id)
	if _, twice := e.operations[id]; twice {
		return fmt.Errorf("%s is there twice", id)
	}
	if operation.StartTimestamp == nil {
		return fmt.Errorf("%s has no beginning", id)
	}
	e.operations[id] = operation
	return nil
}

func (e *execution) operation(id string) *types.Operation {
	e.reading.Lock()
	defer e.reading.Unlock()
	if known, is := e.operations[id]; is {
		return &known
	}
	return nil
}

// Writes updates, and learns what else has changed.
func (e *execution) checkpoint(ctx context.Context, updates ...types.OperationUpdate) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	written, err := e.client.CheckpointDurableExecution(ctx, &lambda.CheckpointDurableExecutionInput{
		DurableExecutionArn: &e.arn, CheckpointToken: &e.token, Updates: updates,
	})
	if err != nil {
		return &refused{err}
	}
	if written.CheckpointToken == nil {
		return errSuspended
	}
	e.token = *written.CheckpointToken
	e.reading.Lock()
	defer e.reading.Unlock()
	for _, operation := range written.NewExecutionState.Operations {
		e.operations[*operation.Id] = operation
	}
	return nil
}

// A checkpoint that failed.
type refused struct{ cause error }

func (r *refused) Error() string { return "checkpoint: " + r.cause.Error() }
func (r *refused) Unwrap() error { return r.cause }

// Whether another invocation may do better, by the kind of the error alone: what is the server's
// fault, what it has no time for, a token that another invocation has superseded, and what is no
// answer of the service at all.
func (r *refused) passes() bool {
	var kind smithy.APIError
	if !errors.As(r.cause, &kind) {
		return true
	}
	return kind.ErrorFault() == smithy.FaultServer ||
		kind.ErrorCode() == "TooManyRequestsException" || isStale(r.cause)
}

func isStale(err error) bool {
	var invalid *types.InvalidParameterValueException
	return errors.As(err, &invalid) &&
		strings.HasPrefix(invalid.ErrorMessage(), "Invalid checkpoint token")
}

func moment(milliseconds *int64) *time.Time {
	if milliseconds == nil {
		return nil
	}
	return aws.Time(time.UnixMilli(*milliseconds))
}

func (f *failure) converted() *types.ErrorObject {
	if f == nil {
		return nil
	}
	return &types.ErrorObject{
		ErrorType: &f.ErrorType, ErrorMessage: &f.ErrorMessage,
		ErrorData: f.ErrorData, StackTrace: f.StackTrace,
	}
}

// The same operation as the API would tell it.
func (g given) converted() types.Operation {
	operation := types.Operation{
		Id: &g.Id, Type: types.OperationType(g.Type), Status: types.OperationStatus(g.Status),
		StartTimestamp: moment(g.StartTimestamp), EndTimestamp: moment(g.EndTimestamp),
	}
	if details := g.StepDetails; details != nil {
		operation.StepDetails = &types.StepDetails{
			Attempt: details.Attempt, Result: details.Result, Error: details.Error.converted(),
			NextAttemptTimestamp: moment(details.NextAttemptTimestamp),
		}
	}
	if details := g.WaitDetails; details != nil {
		end := moment(details.ScheduledEndTimestamp)
		operation.WaitDetails = &types.WaitDetails{ScheduledEndTimestamp: end}
	}
	if details := g.CallbackDetails; details != nil {
		operation.CallbackDetails = &types.CallbackDetails{
			CallbackId: &details.CallbackId, Result: details.Result, Error: details.Error.converted(),
		}
	}
	if details := g.ChainedInvokeDetails; details != nil {
		operation.ChainedInvokeDetails = &types.ChainedInvokeDetails{
			Result: details.Result, Error: details.Error.converted(),
		}
	}
	if details := g.ContextDetails; details != nil {
		operation.ContextDetails = &types.ContextDetails{
			Result: details.Result, Error: details.Error.converted(),
			ReplayChildren: &details.ReplayChildren,
		}
	}
	return operation
}
