# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as JUnit's XML, which CI services read: a test case per machine."""

import re
from xml.etree import ElementTree

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text_of(run):
    return NOT_XML.sub("?", run.text())


def write(file, verdict, runs):
    """Writes the report into an open file. A failure that no command caused becomes a test
    case "machines"."""
    suite = ElementTree.Element("testsuite", name="fakernic-lab")
    for run in runs:
        case = ElementTree.SubElement(
            suite, "testcase", classname="fakernic-lab", name=
            f"{run.node.name}: {run.command}", time=f"{run.seconds:.3f}")
        if run.skipped:
            ElementTree.SubElement(case, "skipped")
        elif run.code:
            ElementTree.SubElement(case, "failure",
                                   message=f"exit code {run.code}")
        ElementTree.SubElement(case, "system-out").text = text_of(run)
    if verdict.detail:
        case = ElementTree.SubElement(suite, "testcase",
                                      classname="fakernic-lab", name="machines")
        failure = ElementTree.SubElement(case, "failure", message=NOT_XML.sub(
            "?", verdict.reason))
        failure.text = NOT_XML.sub("?", verdict.detail)
    for count, tag in (("tests", "testcase"), ("failures", "failure"),
                       ("skipped", "skipped")):
        suite.set(count, str(len(list(suite.iter(tag)))))
    ElementTree.ElementTree(suite).write(file, encoding="utf-8",
                                         xml_declaration=True)
