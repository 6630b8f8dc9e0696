//! Names, keys and labels that are not allowed.

use super::*;

#[tokio::test]
async fn a_name_has_256_printable_ascii_characters_at_most() {
    let step = async |name: String| {
        tried(move |ctx: Context| {
            let name = name.clone();
            async move { ctx.step(&name, async |_| Sure::Ok(1)).await.err() }
        })
        .await
    };
    let mut lines = Vec::new();
    for name in ["x".repeat(255), "x".repeat(256), " ~".to_owned()] {
        assert_eq!(step(name).await, "accepted, SUCCEEDED null");
    }
    lines.push(step("x".repeat(257)).await);
    for name in ["naïve", "tab\there", "\u{7f}", "🦀"] {
        lines.push(step(name.to_owned()).await);
    }
    check!(lines.join("\n"), @r#"
    InvalidInput: step 1 failed: InvalidInputError: the operation name "xxxxxxxxxxxxxxxxxxxx…" has 257 characters, 256 are allowed
    InvalidInput: step 1 failed: InvalidInputError: the operation name "naïve" contains 'ï': only printable ASCII is allowed
    InvalidInput: step 1 failed: InvalidInputError: the operation name "tab\there" contains '\t': only printable ASCII is allowed
    InvalidInput: step 1 failed: InvalidInputError: the operation name "\u{7f}" contains '\u{7f}': only printable ASCII is allowed
    InvalidInput: step 1 failed: InvalidInputError: the operation name "🦀" contains '🦀': only printable ASCII is allowed
    "#);
}

#[tokio::test]
async fn every_operation_looks_at_its_name_before_it_writes() {
    const BAD: &str = "bad\n";
    let strategy = || WaitStrategy::until(|_: &u32| true);
    let lines = [
        tried(async |ctx: Context| ctx.named_wait(BAD, secs(1)).await.err()).await,
        tried(async |ctx: Context| ctx.create_callback::<u32>(BAD).await.err()).await,
        tried(async |ctx: Context| {
            let submit = async |_| Sure::Ok(());
            ctx.wait_for_callback::<u32, _, _, _>(BAD, submit)
                .await
                .err()
        })
        .await,
        tried(async |ctx: Context| ctx.invoke::<_, u32>(BAD, "f", 1).await.err()).await,
        tried(async |ctx: Context| ctx.wait_signal::<u32>(BAD).await.err()).await,
        tried(async |ctx: Context| ctx.wait_signal::<u32>("").await.err()).await,
        tried(move |ctx: Context| async move {
            let check = async |n: u32, _| Sure::Ok(n);
            ctx.wait_for_condition(BAD, 0, check, strategy())
                .await
                .err()
        })
        .await,
        tried(async |ctx: Context| ctx.run_in_child_context(BAD, async |_| Ok(1)).await.err())
            .await,
        tried(async |ctx: Context| {
            ctx.run_in_child_context(BAD, async |_| Ok(1))
                .flat()
                .await
                .err()
        })
        .await,
        tried(async |ctx: Context| ctx.map(BAD, [1], async |_, n| Ok(n)).await.err()).await,
        tried(async |ctx: Context| {
            let map = ctx.map("m", [1, 2], async |_, n| Ok(n));
            map.item_namer(|n, _| format!("{n}\n")).await.err()
        })
        .await,
        tried(async |ctx: Context| {
            let parallel = ctx.parallel("p").branch("good", async |_| Ok(1));
            parallel.branch(BAD, async |_| Ok(2)).await.err()
        })
        .await,
        tried(async |ctx: Context| {
            let step = ctx.step("s", async |_| Sure::Ok(1));
            ctx.race(BAD, [step]).await.err()
        })
        .await,
        tried(async |ctx: Context| {
            ctx.with_retry(BAD, Retry::none(), async |_, n| Ok(n))
                .await
                .err()
        })
        .await,
    ];
    check!(lines.join("\n"), @r#"
    InvalidInput: wait 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: callback 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: invoke 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: callback 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: callback 1 failed: InvalidInputError: a signal needs a name
    InvalidInput: step 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 'm' (1) failed: InvalidInputError: the operation name "1\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 'p' (1) failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 2 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    "#);
}

#[tokio::test]
async fn the_inner_names_of_a_callback_stay_within_the_limit() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let submit = async |_| Sure::Ok(());
        ctx.wait_for_callback::<u32, _, _, _>(&"n".repeat(256), submit)
            .await
    });
    let run = kit.run(()).await;
    let lengths: Vec<usize> = run.operations()[1..]
        .iter()
        .map(|operation| operation.name.as_deref().unwrap().len())
        .collect();
    assert_eq!(lengths, [256, 256, 256]);
}

#[tokio::test]
async fn keys_are_not_empty_and_used_once_per_context() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let mut told = Vec::new();
        for key in ["k", "k", "", "other"] {
            let result = ctx.keyed(key).step("s", async |_| Sure::Ok(1)).await;
            told.push(result.map_or_else(|error| crate::show::told(&error), |_| "fine".to_owned()));
        }
        // Another context has keys of its own.
        let inner = async |ctx: Context| ctx.keyed("k").step("s", async |_| Sure::Ok(1)).await;
        ctx.run_in_child_context("ch", inner).await?;
        Ok::<_, Error>(told)
    });
    let run = kit.run(()).await;
    check!(run.result::<Vec<String>>().unwrap().join("\n"), @"
    fine
    InvalidInput: step 's' (k:k) failed: InvalidInputError: the operation key 'k' is used twice in this context
    InvalidInput: step 's' (k:) failed: InvalidInputError: an operation key must not be empty
    fine
    ");
    assert_eq!(run.operations().len(), 5);
}

#[tokio::test]
async fn labels_are_words_of_32_characters_at_most() {
    let step = async |label: &'static str| {
        tried(move |ctx: Context| async move {
            ctx.step("s", async |_| Sure::Ok(1))
                .sub_type(label)
                .await
                .err()
        })
        .await
    };
    let child = async |label: &'static str| {
        tried(move |ctx: Context| async move {
            ctx.run_in_child_context("ch", async |_| Ok(1))
                .sub_type(label)
                .await
                .err()
        })
        .await
    };
    for label in [
        "a",
        "A-b_9",
        "x234567890123456789012345678901",
        "x2345678901234567890123456789012",
    ] {
        assert_eq!(step(label).await, "accepted, SUCCEEDED null");
        assert_eq!(child(label).await, "accepted, SUCCEEDED null");
    }
    let long = "x23456789012345678901234567890123";
    let lines = [
        step("").await,
        step("a b").await,
        step(long).await,
        child("ä").await,
    ];
    check!(lines.join("\n"), @r#"
    InvalidInput: step 's' (1) failed: InvalidInputError: the label "" is not allowed: 1 to 32 letters, digits, - or _
    InvalidInput: step 's' (1) failed: InvalidInputError: the label "a b" is not allowed: 1 to 32 letters, digits, - or _
    InvalidInput: step 's' (1) failed: InvalidInputError: the label "x23456789012345678901234567890123" is not allowed: 1 to 32 letters, digits, - or _
    InvalidInput: context 'ch' (1) failed: InvalidInputError: the label "ä" is not allowed: 1 to 32 letters, digits, - or _
    "#);
}
