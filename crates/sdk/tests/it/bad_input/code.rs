//! Code that no longer matches its record.

use super::{
    values::{before, deployed},
    *,
};

/// Each way to differ from `before`, in code that swallows every error.
fn changes() -> Vec<Function> {
    let kind = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx.named_wait("s", secs(1)).await;
        Sure::Ok(())
    });
    let label = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx.step("s", async |_| Sure::Ok(1)).sub_type("Other").await;
        Sure::Ok(())
    });
    let name = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx.step("renamed", async |_| Sure::Ok(1)).await;
        Sure::Ok(())
    });
    let no_name = Function::new("f", async |ctx: Context, (): ()| {
        let steps = [ctx.step("", async |_| Sure::Ok(1))];
        let _ = ctx.join_all("all", steps).await;
        Sure::Ok(())
    });
    let in_a_batch = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx
            .map("s", [1], async |_, n| Ok(n))
            .completion(Completion::all_completed())
            .await;
        Sure::Ok(())
    });
    vec![kind, label, name, no_name, in_a_batch]
}

#[tokio::test]
async fn code_that_does_not_match_its_record_is_held_and_writes_nothing() {
    let mut lines = Vec::new();
    for function in changes() {
        let run = deployed(before(|| 1), function).await;
        assert_eq!(run.status(), ExecutionStatus::Running);
        // One request for the step, one for the wait, none after the deployment.
        assert_eq!(run.requests(), 2);
        lines.push(run.held().unwrap().to_string());
    }
    check!(lines.join("\n\n"), @r#"
    NonDeterministicExecutionError: operation 1 differs from its record in its type
      - recorded: Step "s" (type STEP)
      + current:  Wait "s" (type WAIT)
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map

    NonDeterministicExecutionError: operation 1 differs from its record in its subtype
      - recorded: Step "s" (subtype "Step")
      + current:  Other "s" (subtype "Other")
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map

    NonDeterministicExecutionError: operation 1 differs from its record in its name
      - recorded: Step "s" (name "s")
      + current:  Step "renamed" (name "renamed")
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map

    NonDeterministicExecutionError: operation 2 differs from its record in its type
      - recorded: Wait "w" (type WAIT)
      + current:  RunInChildContext "all" (type CONTEXT)
      id d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map

    NonDeterministicExecutionError: operation 1 differs from its record in its type
      - recorded: Step "s" (type STEP)
      + current:  Map "s" (type CONTEXT)
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
    "#);
}

#[tokio::test]
async fn a_held_execution_goes_on_with_code_that_matches() {
    let mut run = deployed(before(|| 1), changes().remove(2)).await;
    assert!(run.held().is_some());
    let fixed = Function::new("f", async |ctx: Context, (): ()| {
        let one = ctx.step("s", async |_| Sure::Ok(1)).await?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(one)
    });
    run.deploy(fixed).await;
    run.resume().await.unwrap();
    run.run_until_complete().await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
}

#[tokio::test]
async fn a_mismatch_fails_the_execution_where_that_is_asked_for_and_on_lambda() {
    let renamed = || changes().remove(2);
    let run = deployed(
        before(|| 1),
        renamed().config(Config::new().fail_on_mismatch(true)),
    )
    .await;
    assert_eq!(run.status(), ExecutionStatus::Failed);
    check!(run.error().unwrap().error_type.as_deref().unwrap(), @"NonDeterministicExecutionError");

    let mut backend = Fake::default();
    backend.abilities = Abilities::LAMBDA;
    let backend = Arc::new(backend);
    let found = recorded(1, OperationType::Step, "Step", OperationStatus::Succeeded);
    let outcome = backend.invoke(&renamed(), vec![found]).await;
    assert!(backend.written().is_empty());
    let error = outcome.answer.unwrap().error.unwrap();
    check!(error.to_string(), @r#"
    NonDeterministicExecutionError: operation 1 differs from its record in its name
      - recorded: Step without a name (name none)
      + current:  Step "renamed" (name "renamed")
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
    "#);
}

#[tokio::test]
async fn a_changed_parent_or_nesting_is_a_mismatch() {
    let nested = |nesting: Nesting, flat: bool| {
        move |ctx: Context, (): ()| async move {
            let body = async |ctx: Context| ctx.step("s", async |_| Sure::Ok(1)).await;
            let child = ctx.run_in_child_context("ch", async |ctx| {
                let one: u32 = body(ctx.clone()).await?;
                ctx.named_wait("w", secs(1)).await?;
                Ok(one)
            });
            let one = if flat {
                child.flat().await?
            } else {
                child.await?
            };
            let map = ctx.map("m", [1], async |ctx, _| body(ctx).await);
            map.nesting(nesting).await?;
            Ok::<_, Error>(one)
        }
    };
    let kit = |flat| TestKit::new("f", nested(Nesting::Nested, flat));
    let function = |flat| Function::new("f", nested(Nesting::Nested, flat));
    let run = deployed(kit(false), function(true)).await;
    check!(run.held().unwrap(), @r#"
    NonDeterministicExecutionError: operation 1 differs from its record in its nesting
      - recorded: RunInChildContext "ch" (nesting nested)
      + current:  RunInChildContext "ch" (nesting flat)
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
    "#);
    let run = deployed(kit(true), function(false)).await;
    check!(run.held().unwrap(), @r#"
    NonDeterministicExecutionError: operation 1-1 differs from its record in its parent
      - recorded: Step "s" (parent none)
      + current:  Step "s" (parent "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b")
      id 59510d91a04a1af467946ec474bb7593d71a8af45f3dc1911dd5b3cbf62478a2; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
    "#);
}

#[tokio::test]
async fn a_signal_is_refused_where_nothing_delivers_it() {
    let function = Function::new("f", async |ctx: Context, (): ()| {
        Sure::Ok(told(&ctx.wait_signal::<u32>("go").await.unwrap_err()))
    });
    let mut backend = Fake::default();
    backend.abilities = Abilities::LAMBDA;
    let backend = Arc::new(backend);
    let outcome = backend.invoke(&function, Vec::new()).await;
    assert!(backend.written().is_empty());
    check!(answer(&outcome.answer.unwrap()), @r#"SUCCEEDED "Unsupported: callback 'go' (1) failed: UnsupportedError: signals are delivered by Outlast only; on AWS Lambda use a callback""#);
}
