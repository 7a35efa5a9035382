"""The shapes of what REST takes and gives: the OpenAPI description is made of these."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, RootModel

MIB = 1 << 20
MOST_DOCUMENTS = 10_000
MOST_LABELS = 100

# ---- kinds of values ----------------------------------------------------------------------------

_VISIBLE = re.compile(r"[^\s\x00-\x1f]")


def _readable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("A text cannot have a NUL character (U+0000).")
    if not _VISIBLE.search(text):
        raise ValueError("A text cannot be empty.")
    return text


def _whole(number: Any) -> Any:
    """In JSON, 10.0 is the integer 10."""
    is_whole = isinstance(number, float) and number.is_integer() and abs(number) < 2**53
    return int(number) if is_whole else number


AnyText = Annotated[str, Field(max_length=MIB)]
Text = Annotated[
    str,
    Field(
        max_length=MIB,
        json_schema_extra={"minLength": 1, "pattern": r"^[^\x00]*[^\s\x00-\x1f][^\x00]*$"},
        examples=["The race was won in the last lap."],
    ),
    AfterValidator(_readable),
]
Id = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1000,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="Your own id of the document; without one it is made of the text.",
        examples=["doc-17"],
    ),
]
Limit = Annotated[
    int,
    Field(ge=1, le=1000, description="How many results at most."),
    BeforeValidator(_whole),
]
Threshold = Annotated[
    float,
    Field(ge=0, le=1, allow_inf_nan=False, description="Leave out results with a lower score."),
]
Label = Annotated[
    str,
    Field(
        min_length=1,
        max_length=10_000,
        description="The path of a node, or its name where only one node has that name.",
        examples=["sports/racing"],
    ),
]


class Given(BaseModel):
    """A request. A name that is not known is an error, rather than a wish that goes unheard."""

    model_config = ConfigDict(extra="forbid")


# ---- requests -----------------------------------------------------------------------------------


class Suggest(Given):
    text: AnyText = Field(examples=["The race was won in the last lap by a red car."])
    limit: Limit = 10
    threshold: Threshold = 0.0


class BatchDocument(Given):
    text: AnyText
    id: Id | None = None


class SuggestBatch(Given):
    documents: list[BatchDocument] = Field(max_length=MOST_DOCUMENTS)
    limit: Limit = 10
    threshold: Threshold = 0.0


class NodeByPath(Given):
    path: Label


class NodeByUri(Given):
    uri: Label = Field(description="The `uri` of a node as this service gives it.")


AnyLabel = Label | NodeByPath | NodeByUri
Labels = Annotated[list[AnyLabel], Field(max_length=MOST_LABELS)]


class Lesson(Given):
    text: Text
    labels: Annotated[list[AnyLabel], Field(min_length=1, max_length=MOST_LABELS)]
    id: Id | None = None


class Lessons(RootModel[Annotated[list[Lesson], Field(max_length=MOST_DOCUMENTS)]]):
    pass


class NewDocument(Given):
    text: Text
    labels: Labels = []
    id: Id | None = None


class NewDocuments(RootModel[Annotated[list[NewDocument], Field(max_length=MOST_DOCUMENTS)]]):
    pass


class NewLabels(Given):
    labels: Labels = Field(description="All labels of the document; an empty list takes them away.")
    seen: Annotated[int, Field(ge=0, le=2**53), BeforeValidator(_whole)] | None = Field(
        None,
        description="The `version` of the document that these labels are an answer to. If someone "
        "has labelled it since, the answer is 409 and nothing changes.",
    )


# ---- answers ------------------------------------------------------------------------------------


class Result(BaseModel):
    path: str
    label: str
    score: float
    uri: str


class Results(BaseModel):
    results: list[Result]


class BatchResults(Results):
    id: str | None = Field(None, json_schema_extra={"default": None})


class Learned(BaseModel):
    learned: int = Field(description="How many documents were learned from.")


class Added(BaseModel):
    new: int = Field(description="Documents that were added.")
    same: int = Field(description="Documents that were there, with the same text.")
    changed: int = Field(description="Documents that were there, with another text.")
    labels: int = Field(description="Documents that got labels.")


class Candidate(BaseModel):
    path: str
    score: float


class Prediction(Candidate):
    others: list[Candidate] = Field(description="The next best.")


class Document(BaseModel):
    id: str
    text: str
    labels: list[str] = Field(description="Paths of the nodes that it is confirmed to be on.")
    version: int = Field(description="Changes with the labels; give it back as `seen`.")
    prediction: Prediction | None


class Answer(BaseModel):
    at: str
    by: str
    source: Literal["import", "review", "api", "tree"]
    labels: list[str] | None = Field(description="null where the document was skipped.")
    suggested: str | None
    score: float | None
    undone: bool


class DocumentWithHistory(Document):
    history: list[Answer] = Field(description="All that was said of it, oldest first.")


class DocumentPage(BaseModel):
    documents: list[Document]
    after: str | None = Field(description="Give it as `after` for the next page; null at the end.")


class Counted(BaseModel):
    confirmed: int = Field(description="Documents with its label.")
    predicted: int = Field(description="Documents without a label, of which it is the best guess.")
    score: float | None = Field(description="Mean score of these guesses.")


class TreeNode(BaseModel):
    path: str
    label: str
    keywords: list[str]
    documents: Counted | None = Field(None, description="Of the branch; where counts were asked.")
    children: list[TreeNode]


class Tree(BaseModel):
    name: str = Field(description="Of the project.")
    version: int = Field(description="Changes whenever the tree does.")
    several: bool = Field(description="Whether a document can have several labels.")
    tree: TreeNode


class NodeName(BaseModel):
    path: str
    label: str
    uri: str


class Word(BaseModel):
    word: str
    weight: float


class Confusion(BaseModel):
    suggested: str
    given: str
    count: int


class Node(NodeName):
    parent: NodeName | None
    children: list[NodeName]
    keywords: list[str]
    own: Counted = Field(description="Documents on the node itself.")
    branch: Counted = Field(description="Documents on it and on all nodes below it.")
    words: list[Word] = Field(description="What it says that its parent does not, as word stems.")
    confusions: list[Confusion] = Field(description="Where reviewers said something else.")


class Health(BaseModel):
    status: Literal["ok"]
    model: bool
    documents: int
    refit: Literal["idle", "running", "failed", "empty"]


class WrongField(BaseModel):
    field: str
    message: str


class Problem(BaseModel):
    status: int
    message: str
    fields: list[WrongField] | None = Field(None, description="With 422: which, and why.")


class Error(BaseModel):
    error: Problem


# ---- Annif --------------------------------------------------------------------------------------

AnnifLimit = Annotated[int, Field(ge=0, le=1000), BeforeValidator(_whole)]
Language = Annotated[
    str | None, Field(max_length=100, description="Not used: nodes have names in one language.")
]


class AnnifSuggest(Given):
    text: AnyText
    limit: AnnifLimit = 10
    threshold: Threshold = 0.0
    language: Annotated[str, Field(max_length=100)] = Field(
        "", description="Not used: nodes have names in one language."
    )


class AnnifDocument(Given):
    text: AnyText
    document_id: str | None = Field(None, max_length=1000)


class AnnifBatch(Given):
    documents: list[AnnifDocument] = Field(max_length=MOST_DOCUMENTS)


class Subject(BaseModel):
    uri: Label = Field(description="As `suggest` gives it; a path will do.")
    label: str | None = Field(None, max_length=10_000, description="Not used.")


class IndexedDocument(BaseModel):
    text: Text
    subjects: list[Subject] = Field(min_length=1, max_length=MOST_LABELS)


class IndexedDocuments(
    RootModel[Annotated[list[IndexedDocument], Field(max_length=MOST_DOCUMENTS)]]
):
    pass


class AnnifResult(BaseModel):
    uri: str
    label: str
    notation: str | None = Field(description="The path of the node.")
    score: float


class AnnifResults(BaseModel):
    results: list[AnnifResult]


class AnnifBatchResults(AnnifResults):
    document_id: str | None


class Backend(BaseModel):
    backend_id: str


class Project(BaseModel):
    project_id: str
    name: str
    language: str
    backend: Backend
    is_trained: bool
    modification_time: str | None


class Projects(BaseModel):
    projects: list[Project]


class About(BaseModel):
    title: str
    version: str


TAKEN: tuple[type[BaseModel], ...] = (
    Suggest,
    SuggestBatch,
    Lessons,
    NewDocuments,
    NewLabels,
    AnnifSuggest,
    AnnifBatch,
    IndexedDocuments,
)
