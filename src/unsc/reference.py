"""What a user knows of records beyond the records themselves, and which targets follow from that."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from torch import Tensor, nn

from unsc.datasets import Source
from unsc.duplicates import Copies, Sketched, near_copies
from unsc.errors import GuessedTargetsWarning, InvalidRequest
from unsc.models import said_of_few
from unsc.options import Options
from unsc.progress import Progress, quiet
from unsc.request import Request, of_classes
from unsc.targets import Lowered, Relabel, Targets, as_rule
from unsc.validation import Validation, read_validation


@dataclass(frozen=True)
class Reference:
    """Samples that were not trained on, and copies of records among the data that stays."""

    validation: Validation = field(default_factory=Validation)
    copies: Copies = field(default_factory=Copies)


NO_REFERENCE = Reference()


def look_around(
    original: nn.Module,
    source: Source,
    request: Request,
    validation: Source | None,
    options: Options,
    *,
    labels: Tensor,
    progress: Progress = quiet,
) -> tuple[Request, Reference]:
    """What there is to know of a request for records, and the request with their copies if those are to go as well.

    `labels` (n,) are those of the training data: samples of classes that are gone do not stay, and are no copies.
    Copies are looked for in one pass over the training data; with it validation samples that are training data are
    found. Without it (`copies="ignore"`) only those that are records themselves are.
    """
    if request.records is None:
        if validation is not None:
            raise InvalidRequest("validation samples serve records alone; leave validation out for classes")
        return request, NO_REFERENCE
    if options.copies == "ignore":
        copies = Copies()
        known = Sketched.of(source, request.records)
    else:
        known = Sketched.of(source, progress=progress)
        copies = _find_copies(original, known, request, options, progress)
        copies = copies.without(of_classes(labels, request.gone).nonzero().flatten().tolist())
        if copies.included:
            request = request.with_copies(copies.origins())
    unseen = Validation()
    if validation is not None:
        unseen = read_validation(
            validation,
            records=len(request.records or ()),
            known=known,
            num_classes=request.num_classes,
            seed=options.seed,
            gone=request.gone,
        )
        said_of_few(original, unseen.batches[0], "the validation data")
    return request, Reference(unseen, copies)


def _find_copies(
    original: nn.Module, samples: Sketched, request: Request, options: Options, progress: Progress
) -> Copies:
    records = request.records or ()
    exact = samples.exact_copies(records)
    included = options.copies == "include"
    if options.near_copies is None:
        return Copies(exact, looked_for=("exact",), included=included)
    count, least = request.num_classes, options.near_copies
    found = near_copies(original, samples.source, records, count, least=least, progress=progress)
    others = {i: tuple(j for j in own if j not in exact.get(i, ())) for i, own in found.items()}
    near = {i: own for i, own in others.items() if own}
    return Copies(exact, near, ("exact", "near"), included)


def default_targets(options: Options, request: Request, reference: Reference) -> Targets:
    """Where forgotten samples go unless the user says otherwise; says so if it is a guess."""
    if request.kind == "classes":
        return options.step.targets
    if request.new_labels:
        if options.targets is not None and not isinstance(as_rule(options.targets), Relabel):
            raise InvalidRequest(f"new_labels have no effect with targets={options.targets!r}; leave one of them out")
        return Relabel.name
    chosen = options.step.record_targets
    if chosen != "unseen" or reference.validation.batches:
        return chosen
    if options.targets is None:
        guess = Lowered()
        warnings.warn(
            "without validation data nobody can tell what a network that never saw these records would say. Their own "
            f"predictions are taken, at temperature {guess.temperature} and with the label's score lowered by "
            f"{guess.shift}, which is a guess. Give validation=..., or accept this with targets='lowered'; "
            "targets='away' moves records away from their labels, as for poisoned or mislabelled ones",
            GuessedTargetsWarning,
            stacklevel=2,
        )
    return Lowered.name
