"""The official runner with its two cloud parts replaced: deployment, and where logs come from.

Everything that judges (results, histories, callbacks, logs) is the runner's own, unmodified.
"""

import contextlib
import json
import shutil
import time
from pathlib import Path
from types import MappingProxyType

import actions
import boto3
import local_runner
from aws_durable_execution_conformance_tests import app
from aws_durable_execution_conformance_tests.clients import AWS_CLIENT_CONFIG, AwsClients
from aws_durable_execution_conformance_tests.cloudwatch import CloudWatchLogRetriever
from botocore.config import Config

# A synchronous invocation answers when its execution ends; asking twice would start two.
PATIENCE_SECONDS = 300

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


def client(endpoint, region):
    return boto3.client(
        "lambda",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id="dev",
        aws_secret_access_key="dev",
        config=AWS_CLIENT_CONFIG.merge(Config(read_timeout=PATIENCE_SECONDS, max_pool_connections=100)),
    )


def files(asked):
    """The files of the requirements, by id."""
    if asked.requirements:
        app.TESTS_DIR = asked.requirements
    return {file.stem: file for file in Path(app.TESTS_DIR).rglob("*.yaml")}


class Runner:
    def __init__(self, engine, logs, asked):
        self.engine = engine
        self.endpoint = engine.endpoint
        self.logs = logs
        self.asked = asked
        self.output = asked.store / "output"
        self.api = client(self.endpoint, app.DEFAULT_REGION)
        if asked.engine == "local-runner":
            self.api = local_runner.Client(self.api, self.endpoint, asked.fill_in)
        if asked.own:
            self.api = actions.Actions(self.api, self.endpoint, engine)
            app.load_extensions = actions.hooked(app.load_extensions, self.api.check)

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
            "--report-file", str(report),
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

        def validate_in_groups(descriptions, **more):
            groups = self.engine.groups(descriptions)
            return [result for group in groups for result in VALIDATE(group, **more)]

        app._validate_descriptions = validate_in_groups

        def retrieve(_self, log_group_name, execution_arn, **_):
            # The last lines may be on their way through a pipe.
            time.sleep(0.5)
            function = log_group_name.removeprefix("/aws/lambda/")
            return self.logs.of(function, execution_arn)

        CloudWatchLogRetriever.get_execution_log_events = retrieve
