"""Judges handlers on an engine with the official runner; `conformance/run` starts it."""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import actions
import ending
import official
import otel
import stand

SDKS = {"rust": stand.Rust, "python": stand.Python, "js": stand.JavaScript}


def arguments():
    parser = argparse.ArgumentParser(
        prog="conformance/run",
        description="Lets the official conformance runner judge handlers on an engine. "
        "The last line is `N passed, M failed`.",
    )
    parser.add_argument("--store", type=Path, required=True, help=argparse.SUPPRESS)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--requirements", type=Path, metavar="DIR",
        help="the folder of requirements, a folder per suite; otherwise those that come with the runner",
    )
    which.add_argument(
        "--own", action="store_true",
        help="our own requirements, for what the official ones leave out (conformance/requirements)",
    )
    which.add_argument(
        "--otel", action="store_true",
        help="the official requirements for OpenTelemetry, judged by the spans that handlers export",
    )
    parser.add_argument("--suite", nargs="+", default=["all"], help="only these suites")
    parser.add_argument("--only", nargs="+", metavar="ID", help="only these requirements")
    parser.add_argument(
        "--engine", default="outlast", metavar="URL|local-runner",
        help="the endpoint of an engine that runs already, or AWS's local runner; "
        "otherwise an `outlast serve` of its own",
    )
    parser.add_argument(
        "--fill-in", action="store_true",
        help="give the events of the local runner the InvocationCompletedDetails that it leaves out",
    )
    parser.add_argument("--sdk", choices=SDKS, default="rust", help="whose handlers are judged")
    parser.add_argument(
        "--report", nargs=2, action="append", default=[], metavar=("json|junit", "FILE"),
        help="write the runner's own report",
    )
    parser.add_argument(
        "--parallel", type=int, metavar="N",
        help="requirements at the same time; 16 otherwise, and half of that where each handler has a process",
    )
    asked = parser.parse_args()
    for form, _ in asked.report:
        if form not in ("json", "junit"):
            parser.error(f"there is no report as {form}; json and junit there are")
    for _, file in asked.report:
        # Told now, and not when everything has been judged.
        if not Path(file).absolute().parent.is_dir():
            parser.error(f"{file} cannot be written: there is no such folder")
    if asked.parallel is not None and asked.parallel < 1:
        parser.error("--parallel is at least 1")
    if asked.requirements and not asked.requirements.is_dir():
        parser.error(f"there is no folder {asked.requirements}")
    if asked.fill_in and asked.engine != "local-runner":
        parser.error("--fill-in is for --engine local-runner")
    asked.store = asked.store.absolute()
    return asked


def passes(entry):
    return entry["status"] == "PASSED"


def main():
    asked = arguments()
    ending.heed_signals()
    begun = time.monotonic()
    if asked.engine not in ("outlast", "local-runner"):
        # Told before anything is built.
        stand.Elsewhere(asked.engine)
    sdk = SDKS[asked.sdk](asked.store)
    asked.parallel = asked.parallel or sdk.parallel
    if asked.own:
        asked.requirements = stand.ROOT / "conformance/requirements"
    if asked.otel and asked.suite == ["all"]:
        # The runner's own suites have no spans.
        asked.suite = list(otel.suites(asked.store))
    files = official.files(asked)
    chosen = files.keys() & set(asked.only) if asked.only else set(files)
    suites = {file.parent.name for file in files.values()}
    unknown = set(asked.suite) - suites - {"all"}
    if unknown and not asked.otel:
        raise SystemExit(f"there is no suite {' '.join(sorted(unknown))}; there are: {' '.join(sorted(suites))}")
    if asked.own and asked.suite != ["all"]:
        chosen = {id for id in chosen if files[id].parent.name in asked.suite}
    needed = {id: actions.needed(actions.read(files[id])) for id in chosen} if asked.own else {}
    left_out = {id for id, powers in needed.items() if powers - sdk.powers(asked.engine)}
    chosen -= left_out
    said = f"{len(left_out)} left out, as nobody may do there what they need: {' '.join(sorted(left_out))}"
    if not chosen:
        raise SystemExit(said if left_out else "there is no such requirement")
    missing = chosen - sdk.covered()
    if missing == chosen:
        raise SystemExit(f"there is no {asked.sdk} handler for any of these requirements")
    apart = {id: powers for id, powers in needed.items() if powers and id in chosen}
    temporary = tempfile.TemporaryDirectory(prefix="outlast-conformance-")
    with ending.closing(temporary.cleanup):
        folder = Path(temporary.name)
        collecting = otel.collecting() if asked.otel else contextlib.nullcontext()
        standing = sdk.standing(asked.engine, folder, chosen, apart)
        with collecting, standing as (engine, logs, places):
            print(f"{asked.sdk} handlers on {engine.endpoint}", flush=True)
            runner = official.Runner(engine, logs, places, asked)
            results = runner.judge(sdk.template(folder, chosen), folder)
    results = [entry for entry in results if entry["id"] in chosen]
    # A handler is missing; only our own SDK claims to have all of them.
    uncovered = [entry for entry in results if entry["status"] == "UNCOVERED"]
    if not sdk.is_complete:
        results = [entry for entry in results if entry not in uncovered]
    for entry in results:
        if not passes(entry):
            print(f"\n{entry['id']} {entry['status']}: {entry['description']}")
            for error in entry["errors"]:
                print(f"  {error}")
    for id, errors in sorted(runner.second_tries.items()):
        print(f"\n{id} passed at the second try, alone; at the first:")
        for error in errors:
            print(f"  {error}")
    passed = sum(map(passes, results))
    failed = len(results) - passed
    print()
    if not sdk.is_complete:
        print(f"{len(uncovered)} requirements have no {asked.sdk} handler")
    if runner.second_tries:
        print(f"{len(runner.second_tries)} passed at the second try: {' '.join(sorted(runner.second_tries))}")
    if left_out:
        print(said)
    print(f"{time.monotonic() - begun:.0f} s; histories and the runner's log are in {runner.output}")
    print(f"{passed} passed, {failed} failed")
    # A run that judged nothing proves nothing.
    sys.exit(failed > 0 or passed == 0)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        # It has said why itself.
        raise SystemExit(f"run: {error}") from None
