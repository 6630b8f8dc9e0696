"""The official runner with its two cloud parts replaced: deployment, and where logs come from.

Everything that judges (results, histories, callbacks, logs) is the runner's own, unmodified.
"""

import contextlib
import functools
import json
import os
import shutil
import time
from pathlib import Path
from types import MappingProxyType

import actions
import boto3
import local_runner
import otel
from aws_durable_execution_conformance_tests import app
from aws_durable_execution_conformance_tests.clients import AWS_CLIENT_CONFIG, AwsClients
from aws_durable_execution_conformance_tests.cloudwatch import CloudWatchLogRetriever
from botocore.config import Config

# A synchronous invocation answers when its execution ends; asking twice would start two.
PATIENCE_SECONDS = 300
# More than these do not fail by chance.
SECOND_TRIES_MAX = 5

VALIDATE = app._validate_descriptions


class Deployed:
    """Instead of SAM: the handlers are attached already."""

    def __init__(self, **_):
        pass

    def build(self):
        pass

    def deploy(self, **_):
        pass


class Stack:
    """Instead of CloudFormation: functions are named as in the template."""

    def __init__(self, functions):
        self.functions = functions

    def get_paginator(self, _operation):
        return self

    def paginate(self, **_):
        summaries = [
            {"ResourceType": "AWS::Lambda::Function", "LogicalResourceId": name, "PhysicalResourceId": name}
            for name in self.functions
        ]
        return [{"StackResourceSummaries": summaries}]

    def describe_stack_resource(self, LogicalResourceId, **_):
        return {"StackResourceDetail": {"PhysicalResourceId": LogicalResourceId}}


def keys(environment):
    """As whom to ask: as the environment says, which is what our own worker goes by as well."""
    if "AWS_ACCESS_KEY_ID" in environment:
        return {}
    # Either half of a bearer token is half of a key pair.
    key, _, secret = environment.get("OUTLAST_TOKEN", "dev.dev").partition(".")
    return {"aws_access_key_id": key, "aws_secret_access_key": secret}


def client(endpoint, region):
    return boto3.client(
        "lambda",
        endpoint_url=endpoint,
        region_name=region,
        **keys(os.environ),
        config=AWS_CLIENT_CONFIG.merge(Config(read_timeout=PATIENCE_SECONDS, max_pool_connections=100)),
    )


def files(asked):
    """The files of the requirements, by id."""
    if asked.otel:
        return otel.files(asked.store)
    if asked.requirements:
        app.TESTS_DIR = asked.requirements
    return {file.stem: file for file in Path(app.TESTS_DIR).rglob("*.yaml")}


class Runner:
    def __init__(self, engine, logs, places, asked):
        self.engine = engine
        self.endpoint = engine.endpoint
        self.logs = logs
        self.asked = asked
        self.output = asked.store / "output"
        # By requirement that passed at the second try: what was wrong at the first.
        self.second_tries = {}
        self.api = client(self.endpoint, app.DEFAULT_REGION)
        if asked.engine == "local-runner":
            self.api = local_runner.Client(self.api, self.endpoint, asked.fill_in)
        if asked.own:
            self.api = actions.Actions(
                self.api, lambda endpoint: client(endpoint, app.DEFAULT_REGION), places
            )
            app.load_extensions = actions.hooked(app.load_extensions, self.api.check)
        if asked.otel:
            app.load_extensions = otel.loading(app.load_extensions, asked.store)
        else:
            app.load_extensions = functools.partial(app.load_extensions, entry_points=())

    def judge(self, template, folder):
        """The entries of the runner's report on the functions of a template."""
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir(parents=True)
        if self.asked.own:
            for function, requirement in app.parse_function_descriptions(str(template)):
                self.api.know(function, files(self.asked)[requirement])
        self._replace(template)
        asked = self.asked
        report = folder / "report"
        argv = [
            "--template", str(template), "--name", "local", "--language", asked.sdk,
            "--suite", *asked.suite, "--max-workers", str(asked.parallel),
            "--history-dir", str(self.output), "--report", "json", "junit",
            "--report-file", str(report), *(otel.OPTIONS if asked.otel else []),
        ]
        log = self.output / "runner.log"
        with log.open("w") as lines, contextlib.redirect_stdout(lines), contextlib.redirect_stderr(lines):
            try:
                app.run(argv)
            except SystemExit:
                pass
        written = {"json": Path(f"{report}.json"), "junit": Path(f"{report}.xml")}
        if not written["json"].exists():
            raise SystemExit(f"the runner judged nothing:\n{log.read_text()}")
        for form, file in asked.report:
            shutil.copy(written[form], file)
        return json.loads(written["json"].read_text())["results"]

    def _replace(self, template):
        functions = [name for name, _ in app.parse_function_descriptions(str(template))]
        app.Deployer = Deployed
        app.delete_stack = lambda *_: True

        def create(_region, _services=()):
            return AwsClients(
                MappingProxyType(
                    {"lambda": self.api, "cloudformation": Stack(functions), "logs": None}
                )
            )

        AwsClients.create = create
        judge = self._judged_twice(VALIDATE)

        def validate_in_groups(descriptions, **more):
            groups = self.engine.groups(descriptions)
            return [result for group in groups for result in judge(group, **more)]

        app._validate_descriptions = validate_in_groups

        def retrieve(_self, log_group_name, execution_arn, **_):
            # The last lines may be on their way through a pipe.
            time.sleep(0.5)
            function = log_group_name.removeprefix("/aws/lambda/")
            return self.logs.of(function, execution_arn)

        CloudWatchLogRetriever.get_execution_log_events = retrieve

    def _judged_twice(self, judge):
        """Requirements are about seconds: on a busy machine an invocation may take
        longer than the wait that it begins. What failed is judged once more, alone."""

        def judge_twice(pairs, **asked):
            results = judge(pairs, **asked)
            failed = [at for at, result in enumerate(results) if not result.passed]
            if len(failed) > SECOND_TRIES_MAX:
                return results
            for at in failed:
                [again] = judge([pairs[at]], **asked)
                if again.passed:
                    self.second_tries[again.description_id] = results[at].errors
                    results[at] = again
            return results

        return judge_twice
