//! The table of moves, row by row.

use super::*;

const STATUSES: [Option<OperationStatus>; 9] = [
    None,
    Some(OperationStatus::Started),
    Some(OperationStatus::Pending),
    Some(OperationStatus::Ready),
    Some(OperationStatus::Succeeded),
    Some(OperationStatus::Failed),
    Some(OperationStatus::Cancelled),
    Some(OperationStatus::TimedOut),
    Some(OperationStatus::Stopped),
];

/// One row of the protocol's table: which statuses accept the action, and what it leads to.
fn check(
    operation_type: OperationType,
    action: OperationAction,
    accepted: &[Option<OperationStatus>],
    next: OperationStatus,
) {
    for current in STATUSES {
        let outcome = transition(operation_type, current, action);
        let expected = accepted.contains(&current).then_some(next);
        assert_eq!(
            outcome.ok(),
            expected,
            "{operation_type} {action} from {current:?}"
        );
    }
}

#[test]
fn every_row_of_the_table_of_moves_holds() {
    use OperationAction as A;
    use OperationStatus as S;
    use OperationType as T;
    let open = [None, Some(S::Started), Some(S::Ready)];
    check(T::Step, A::Start, &[None, Some(S::Ready)], S::Started);
    check(T::Step, A::Succeed, &open, S::Succeeded);
    check(T::Step, A::Fail, &open, S::Failed);
    check(T::Step, A::Retry, &open, S::Pending);
    check(T::Step, A::Cancel, &[], S::Cancelled);
    check(T::Context, A::Start, &[None], S::Started);
    check(T::Context, A::Succeed, &open, S::Succeeded);
    check(T::Context, A::Fail, &open, S::Failed);
    check(T::Context, A::Retry, &[], S::Pending);
    check(T::Context, A::Cancel, &[], S::Cancelled);
    check(T::Wait, A::Start, &[None], S::Started);
    check(T::Wait, A::Cancel, &[Some(S::Started)], S::Cancelled);
    check(T::Wait, A::Succeed, &[], S::Succeeded);
    check(T::Wait, A::Fail, &[], S::Failed);
    check(T::Wait, A::Retry, &[], S::Pending);
    for operation_type in [T::Callback, T::ChainedInvoke] {
        check(operation_type, A::Start, &[None], S::Started);
        for action in [A::Succeed, A::Fail, A::Retry, A::Cancel] {
            check(operation_type, action, &[], S::Succeeded);
        }
    }
    check(T::Execution, A::Succeed, &[Some(S::Started)], S::Succeeded);
    check(T::Execution, A::Fail, &[Some(S::Started)], S::Failed);
    for action in [A::Start, A::Retry, A::Cancel] {
        check(T::Execution, action, &[], S::Started);
    }
}

#[test]
fn an_action_a_type_does_not_have_is_told_apart_from_a_wrong_moment() {
    let misfit =
        |operation_type, current, action| transition(operation_type, current, action).unwrap_err();
    let started = Some(OperationStatus::Started);
    assert_eq!(
        misfit(OperationType::Callback, started, OperationAction::Cancel),
        Misfit::Action
    );
    assert_eq!(
        misfit(OperationType::Step, started, OperationAction::Start),
        Misfit::Start
    );
    assert_eq!(
        misfit(OperationType::Wait, None, OperationAction::Cancel),
        Misfit::Cancel
    );
    assert_eq!(
        misfit(
            OperationType::Step,
            Some(OperationStatus::Pending),
            OperationAction::Retry
        ),
        Misfit::Retry
    );
}
