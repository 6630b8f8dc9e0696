//! Bodies that do something before their first await: it counts as done by the body.

use outlast::{Context, Error, ErrorKind, Result, Retry, testing::TestKit};

#[test]
fn a_body_that_returns_an_operation_of_its_context_needs_no_async_block() {
    let run = TestKit::new("f", async |ctx: Context, (): ()| -> Result<u32> {
        let child = ctx.run_in_child_context("child", |ctx| {
            ctx.step("one", async |_| Ok::<_, Error>(1)).future()
        });
        let one = child.await?;
        let items = ctx.map("map", [2, 3], |ctx, n| {
            ctx.step("item", move |_| async move { Ok::<_, Error>(n) })
                .future()
        });
        Ok(one + items.await?.into_values()?.iter().sum::<u32>())
    })
    .run_blocking(());
    assert_eq!(run.result::<u32>().unwrap(), 6);
    assert_eq!(run.children("child").len(), 1);
}

#[test]
fn an_operation_made_while_a_step_is_called_is_nested_and_takes_no_position() {
    let run = TestKit::new("f", async |ctx: Context, (): ()| -> Result<(String, u32)> {
        let inner = ctx.clone();
        let nested = ctx
            .step("outer", move |_| {
                inner.step("inner", async |_| Ok::<_, Error>(1)).future()
            })
            .retry(Retry::none());
        let error = nested.await.unwrap_err();
        let after = ctx.step("after", async |_| Ok::<_, Error>(2)).await?;
        Ok((error.error_type().to_owned(), after))
    })
    .run_blocking(());
    assert_eq!(
        run.result::<(String, u32)>().unwrap(),
        ("NestedInStepError".to_owned(), 2)
    );
    assert!(run.operation("inner").is_none());
}

#[test]
fn a_panic_while_a_step_is_called_fails_the_step() {
    let run = TestKit::new("f", async |ctx: Context, (): ()| -> Result<bool> {
        let step = ctx.step("s", |_| -> std::future::Ready<Result<()>> { panic!("no") });
        let error = step.retry(Retry::none()).await.unwrap_err();
        Ok(error.kind() == ErrorKind::Step && error.message() == "no")
    })
    .run_blocking(());
    assert!(run.result::<bool>().unwrap());
}
