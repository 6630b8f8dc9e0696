"""Random programs: a seed gives a tree of operations, for one handler that does what it is told.

A program is `{"seed", "body", "pad", "nothing", "fail"}`: the operations, one after another; how many
characters the result is made longer by; whether there is none; the error that the handler ends with.
Every operation has a name of its own, so that histories can be compared and callbacks found; inside a
`map` the interpreters add the index of the item to it.
"""

import random

KIB = 1024
TEXTS = ["", " ", "plain", "ümlaut ß 漢字 🎈", 'quotes " and \\ and /', "line\nbreak\ttab"]
TEXTS += ["\u2028", "null", "{}", "</script>"]
VALUES = [None, True, 0, -1, 1.5, 2**53 - 1, [], {}, [None, [1, [2]]], {"": "", "ä": {"b": [None]}}, *TEXTS]
ERRORS = [
    {"name": "Error", "message": "plain failure"},
    {"name": "RangeError", "message": "ümlaut 漢字 🎈"},
    {"name": "OddError", "message": ""},
    {"name": "OddError", "message": 'quotes " and\nlines', "data": '{"code":7}'},
]
# Around what the SDKs send as one payload, and what they send another way.
SIZES = [200 * KIB, 256 * KIB - 40, 256 * KIB, 256 * KIB + 1, 300 * KIB, 700 * KIB]


class Generator:
    """`sdk` says which operations there are: combinators of promises are JavaScript's."""

    def __init__(self, seed, sdk):
        self.random = random.Random(f"{sdk}-{seed}")
        self.sdk = sdk
        self.count = 0
        # Whether there may be callbacks and invokes: nobody answers those of what is invoked.
        self.answered = True
        # How much more there may be: seconds of waiting, and operations.
        self.patience = 6
        self.budget = self.random.choice([3, 6, 12, 20])

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def value(self):
        if self.chance(8):
            return {"size": self.random.choice(SIZES)}
        if self.chance(8):
            return {"nothing": True}
        return {"value": self.random.choice(VALUES)}

    def seconds(self, most=2):
        """A duration, or none when enough was waited for."""
        if self.patience <= 0:
            return 0
        chosen = self.random.randint(1, most)
        self.patience -= chosen
        return chosen

    def body(self, depth, most=4):
        made = []
        for _ in range(self.random.randint(1, most)):
            if self.budget <= 0 and made:
                break
            made.append(self.operation(depth))
        return made

    def operation(self, depth):
        self.budget -= 1
        leaves = ["step"] * 5 + ["wait", "condition", "throw"]
        if self.answered:
            leaves += ["callback", "waitCallback", "invoke", "invoke"]
        nodes = ["child", "child", "map", "parallel", "retry"] if depth < 3 else []
        if depth == 0 and self.chance(25):
            nodes += ["heavy"]
        if self.sdk == "js":
            nodes += ["together"] * 2
        kind = self.random.choice(leaves + nodes * 2)
        made = getattr(self, kind)(depth)
        # What is not caught ends the execution, so most is.
        made["catch"] = self.chance(85)
        return made

    def step(self, depth):
        made = {"op": "step", "name": self.name("s"), "value": self.value(), "once": self.chance(30)}
        made |= {"fails": 0, "attempts": 1, "error": self.random.choice(ERRORS)}
        if self.chance(35):
            made["fails"] = self.random.randint(1, 3)
            made["attempts"] = 1 + sum(1 for _ in range(self.random.randint(0, 2)) if self.seconds(1))
        if self.chance(10):
            made["name"] = None
        return made

    def wait(self, depth):
        seconds = self.seconds()
        if not seconds:
            return self.step(depth)
        return {"op": "wait", "name": self.random.choice([None, self.name("w")]), "seconds": seconds}

    def condition(self, depth):
        polls = 1 + sum(1 for _ in range(self.random.randint(0, 2)) if self.seconds(1))
        fails_at = self.random.randint(1, polls) if self.chance(25) else 0
        made = {"op": "condition", "name": self.name("p"), "polls": polls, "failsAt": fails_at}
        return made | {"error": self.random.choice(ERRORS), "state": self.random.choice(VALUES)}

    def answer(self, made):
        """How the driver answers, and the options that belong to it."""
        kinds = ["success"] * 3 + ["failure"] * 2 + ["heartbeat"]
        if self.patience > 0:
            kinds += ["timeout", "heartbeatTimeout"]
        kind = self.random.choice(kinds)
        made["answer"] = {"kind": kind, "submitted": made["op"] == "waitCallback"}
        if kind in ("success", "heartbeat"):
            made["answer"]["text"] = self.random.choice([*TEXTS, '"json"', '{"a":[1]}', None])
        if kind == "failure":
            made["answer"]["error"] = self.random.choice([
                {},
                {"ErrorMessage": "no", "ErrorType": "Refused"},
                {"ErrorMessage": "", "ErrorType": "Refused", "ErrorData": '{"by":"desk"}'},
                {"ErrorMessage": "ümlaut", "StackTrace": ["at desk"]},
                {"ErrorType": "OnlyAType"},
            ])
        made["timeout"] = self.seconds(1) if kind == "timeout" else self.random.choice([0, 60])
        made["heartbeat"] = self.seconds(1) if kind == "heartbeatTimeout" else self.random.choice([0, 60])
        return made

    def callback(self, depth):
        return self.answer({"op": "callback", "name": self.name("c"), "work": self.chance(40)})

    def waitCallback(self, depth):
        made = self.answer({"op": "waitCallback", "name": self.name("d"), "fails": 0, "attempts": 1})
        if self.chance(20):
            made |= {"fails": 1, "attempts": 2 if self.seconds(1) else 1}
        return made | {"error": self.random.choice(ERRORS)}

    def invoke(self, depth):
        made = {"op": "invoke", "name": self.name("i"), "target": self.random.choice(["Plain", "Child", "Child"])}
        # The JavaScript runner ends with an error where the service fails the operation.
        if self.sdk == "python" and self.chance(10):
            made["target"] = self.random.choice(["Nobody", "Nobody:$LATEST"])
        if made["target"] == "Plain":
            fails = {"fail": self.random.choice(ERRORS)} if self.chance(35) else {}
            value = self.value()
            while self.sdk == "js" and "nothing" in value:
                # The JavaScript runner hands on nothing where Lambda's runtime answers null.
                value = self.value()
            return made | {"input": {"value": value, **fails}}
        self.answered, before = False, self.answered
        made["input"] = self.program(3, 2)
        self.answered = before
        return made

    def throw(self, depth):
        return {"op": "throw", "error": self.random.choice(ERRORS)}

    def child(self, depth):
        made = {"op": "child", "name": self.name("k"), "body": self.body(depth + 1, 3), "pad": 0}
        made["virtual"] = self.chance(15)
        if self.chance(15):
            made["pad"] = self.random.choice(SIZES)
        return made

    def retry(self, depth):
        """A block that runs again from its start."""
        before = self.answered
        # What is asked again has the name it had, and one runner finds callbacks by their names.
        self.answered = before and self.sdk == "python"
        made = {"op": "retry", "name": self.name("r"), "body": self.body(depth + 1, 2)}
        self.answered = before
        made |= {"fails": 0, "attempts": 2, "error": self.random.choice(ERRORS)}
        if self.seconds(1):
            made["fails"] = self.random.randint(1, 2)
        return made

    def heavy(self, depth):
        """More than one invocation can carry, and a wait after which it has to be read again."""
        count, size = self.random.choice([(12, 600 * KIB), (30, 250 * KIB), (150, 100)])
        self.patience -= 1
        return {"op": "heavy", "name": self.name("h"), "count": count, "size": size}

    def batch(self, made, total):
        """Only items that run one after another end in one order, so only those may end early."""
        made["flat"] = self.chance(20)
        made["concurrency"] = self.random.choice([0, 0, 1, 1, 2])
        rules = [{"percentage": 100}, {"tolerated": total}]
        if made["concurrency"] == 1:
            rules += [{}, {"tolerated": self.random.randint(0, total)}]
            rules += [{"percentage": self.random.choice([0, 34, 50])}]
            rules += [{"least": self.random.randint(1, total)}] if total else []
        return made | self.random.choice(rules)

    def map(self, depth):
        items = self.random.randint(0, 4)
        self.budget -= items
        made = {"op": "map", "name": self.name("m"), "items": items, "body": self.body(depth + 1, 2)}
        made["failing"] = self.random.randrange(max(1, items)) if self.chance(25) else -1
        made["pad"] = self.random.choice([90 * KIB, 200 * KIB]) if self.chance(10) else 0
        return self.batch(made, items)

    def parallel(self, depth):
        bodies = [self.body(depth + 1, 2) for _ in range(self.random.randint(1, 4))]
        return self.batch({"op": "parallel", "name": self.name("b"), "bodies": bodies}, len(bodies))

    def together(self, depth):
        made = {"op": "together", "name": self.name("t"), "durable": self.chance(70)}
        made["how"] = self.random.choice(["all", "all", "allSettled", "any", "race"])
        leaves = [self.step, self.step, self.wait, self.condition]
        leaves += [self.invoke] if self.answered and made["how"] == "allSettled" else []
        if made["how"] in ("any", "race"):
            # Only one can win.
            first = self.step(depth) | {"fails": 0, "value": {"value": "first"}}
            made["bodies"] = [first, {"op": "wait", "name": self.name("w"), "seconds": 2}]
            self.patience -= 2
        else:
            made["bodies"] = [self.random.choice(leaves)(depth) for _ in range(self.random.randint(1, 4))]
        if made["how"] == "all":
            # The first failure ends it, and which is the first is not the program's to say.
            for body in made["bodies"][1:]:
                body |= {"fails": 0, "failsAt": 0}
            made["bodies"][0] |= {"attempts": 1} if len(made["bodies"]) == 1 else {"fails": 0, "failsAt": 0}
        return made

    def program(self, depth, most):
        made = {"body": self.body(depth, most), "pad": 0, "fail": None}
        if self.chance(10):
            made["pad"] = self.random.choice(SIZES)
        if self.chance(12):
            made["fail"] = self.random.choice(ERRORS)
        return made


def program(seed, sdk):
    """One without callbacks is told to be `waited` for, so it may end with more than another."""
    generator = Generator(seed, sdk)
    made = {"seed": seed} | generator.program(0, 6)
    made["waited"] = not callbacks(made["body"])
    if made["waited"] and generator.chance(15):
        made["pad"] = generator.random.choice([2 * KIB * KIB, 6 * KIB * KIB - 4 * KIB])
    if generator.chance(10):
        made["nothing"] = True
    return made


def callbacks(body, suffixes=("",)):
    """The answers to all callbacks that a program may make, by name. Not those of what it invokes."""
    found = {}
    for node in body:
        # One whose submitter fails is never answered.
        if "answer" in node and not node.get("fails"):
            found |= {f"{node['name']}{suffix}": node["answer"] for suffix in suffixes}
        inner = suffixes
        if node["op"] == "map":
            inner = [f"{suffix}.{index}" for suffix in suffixes for index in range(node["items"])]
        for below in [node["body"]] if "body" in node else []:
            found |= callbacks(below, inner)
        for below in node.get("bodies", []):
            found |= callbacks(below if isinstance(below, list) else [below], inner)
    return found
