//! What arrives from outside and makes no sense: paths, ARNs and checkpoint bodies, made from a
//! seed. Nothing may panic, and nothing may be damaged.

use crate::world::World;
use outlast_core::{
    arn::{ExecutionArn, FunctionReference},
    random::SplitMix64,
};
use outlast_server::route::{Query, route};

const PIECES: [&str; 40] = [
    "/",
    "//",
    "%",
    "%2F",
    "%3A",
    "%24",
    "%zz",
    "%C3",
    "%C3%A9",
    ".",
    "..",
    "?",
    "&",
    "=",
    ":",
    "$LATEST",
    "arn",
    "aws",
    "lambda",
    "us-east-1",
    "000000000000",
    "function",
    "f",
    "1",
    "durable-execution",
    "durable-executions",
    "durable-execution-callbacks",
    "functions",
    "aliases",
    "checkpoint",
    "2025-12-01",
    "2015-03-31",
    "2018-06-01",
    "outlast/v1/executions",
    "signals",
    "succeed",
    "é",
    " ",
    "\u{0}",
    "",
];

fn pick<'a>(random: &mut SplitMix64, of: &[&'a str]) -> &'a str {
    of[usize::try_from(random.next_u64()).unwrap() % of.len()]
}

fn noise(random: &mut SplitMix64, most: u64) -> String {
    let length = random.next_u64() % most;
    (0..length).map(|_| pick(random, &PIECES)).collect()
}

#[test]
fn any_path_has_a_route_or_none() {
    let mut random = SplitMix64::new(1);
    let mut routed = 0;
    for _ in 0..200_000 {
        let known = [
            "/2025-12-01/durable-executions/a/",
            "/2025-12-01/durable-execution-callbacks/a/",
            "/2015-03-31/functions/",
            "/outlast/v1/executions/a/",
            "/functions/f/2018-06-01/",
            "/",
        ];
        let path = pick(&mut random, &known).to_owned() + &noise(&mut random, 6);
        let method = ["GET", "POST", "PUT", "DELETE", "PATCH"];
        let method = pick(&mut random, &method).parse().unwrap();
        routed += u32::from(route(&method, &path).is_ok());
        let query = noise(&mut random, 8);
        let query = Query::new(Some(&query));
        let _ = (query.get("f"), query.all("1"));
    }
    assert!(routed > 50, "{routed}");
}

#[test]
fn an_arn_that_can_be_read_is_written_as_it_was() {
    let arn = "arn:aws:lambda:us-east-1:000000000000:function:f:1/durable-execution/n/\
               0195f0a0-0000-7000-8000-000000000000";
    let mut random = SplitMix64::new(2);
    let mut read = 0;
    for _ in 0..200_000 {
        let mut text = arn.to_owned();
        for _ in 0..=random.next_u64() % 2 {
            let at = usize::try_from(random.next_u64()).unwrap() % text.len();
            let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) else {
                continue;
            };
            let piece = pick(&mut random, &PIECES);
            text.replace_range(at..at + character.len_utf8(), piece);
            if text.is_empty() {
                text.push('a');
            }
        }
        if let Ok(parsed) = text.parse::<ExecutionArn>() {
            assert_eq!(parsed.to_string(), text);
            read += 1;
        }
        let _ = text.parse::<FunctionReference>();
        let _ = noise(&mut random, 14).parse::<FunctionReference>();
    }
    assert!(read > 1_000, "{read}");
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_body_is_accepted_or_refused_and_damages_nothing() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..200 {
        let (yes, no) = World::new(seed).await.odd_bodies(100).await;
        accepted += yes;
        refused += no;
    }
    assert!(accepted > 500 && refused > 500, "{accepted} {refused}");
}
