"""The commands, one module each, of the name that users type."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.cli.grammar.command import Command

#: What ``fatpack --help`` says of them all.
DESCRIPTION = """Pack, inspect, extract and edit the files in which GPU device code travels.

Results go to stdout, messages to stderr. "-" is stdin or stdout; "@FILE" is a file with more arguments. Exit codes:
0 fine, 1 warnings or nothing matched, 2 usage, 3 damaged input, 4 unsupported, 5 input/output error.
"""

#: command, which is a module of this folder or of one in it → one line for the overview
COMMANDS = {
    "pack": "Pack device images into a container, or straight into a host object.",
    "wrap": "Make an object that registers device images when it is linked.",
    "extract": "Extract device images from any supported file.",
    "inspect": "Show hosts, containers, images and kernels, with sizes, offsets and findings.",
    "convert": "Convert between container formats without losing anything.",
    "embed": "Put a finished container into a copy of an object.",
    "remove": "Remove device code, or the selected images, from an object, archive or container.",
    "replace": "Replace one image of an object, archive or container, or all device code of an object.",
    "map": "Run a program for every selected image, and put back or keep what it makes.",
    "slim": "Take device code that no device needs out of libraries, objects and archives.",
    "link-inputs": "Collect the device images of a link line, grouped for the device link.",
    "explain": "Say what a device loads of files, by which rule, and what mends it where nothing fits.",
    "targets": "Explain a triple, architecture or device name, or list all names.",
    "check": "Hold files against a policy; compare the stages of one unit, or programs with their kpack archives.",
    "doctor": "Verify everything that can be verified in files, and say what cannot.",
    "diff": "Tell what differs between two releases: libraries, architectures, kernels, bytes.",
    "report": "Write a page, a picture or a text on what is in files: bytes, coverage, duplicates.",
    "survey": "Collect the rows of many files, on all cores or on a cluster, into a folder of tables.",
    "tool": "Behave as another tool; without a name, list them.",
    "completion": "Print the script by which bash, zsh or fish completes command lines.",
    "help": "Show what a command takes.",
}

#: How the overview groups the commands: each stands in one of these.
GROUPS = {
    "Look": ("inspect", "check", "explain", "diff", "report", "doctor", "targets"),
    "Make": ("pack", "convert", "wrap"),
    "Take apart": ("extract", "link-inputs"),
    "Change": ("embed", "replace", "remove", "map", "slim"),
    "Fleets": ("survey",),
    "Others": ("tool", "completion", "help"),
}


#: commands whose modules lie in a folder of their own
_FOLDERS = {
    **dict.fromkeys(("embed", "map", "remove", "replace", "slim"), "editing"),
    **dict.fromkeys(("check", "diff", "doctor", "explain", "report"), "answering"),
}


def command(name: str) -> Command:
    """Import and return one of the commands: none of them pays for another."""
    module = name.replace("-", "_")
    if name in _FOLDERS:
        module = f"{_FOLDERS[name]}.{module}"
    declared: Command = __import__(f"{__name__}.{module}", fromlist=["command"]).command
    return declared
