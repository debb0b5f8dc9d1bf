"""The commands: their names, one line of help each, and a module or folder for each."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.command_line.command import Command


#: The sentence of ``fatpack --help``.
DESCRIPTION = "Inspect, check, extract, edit and shrink the GPU code inside libraries, objects and wheels."

#: command, which is a module of this folder or of one in it → one line for the overview
COMMANDS = {
    "inspect": "Show the containers, images and kernels in a file.",
    "check": "Check files against a policy (architectures, size).",
    "explain": "Show which code a GPU would load from a file, and why.",
    "slim": "Remove GPU code for architectures you do not need.",
    "split": "Make a wheel or conda package for each kind of device.",
    "extract": "Write the images in a file to files of their own.",
    "report": "Write an HTML report: bytes, kernels, coverage per GPU.",
    "diff": "Compare the GPU code of two releases.",
    "pack": "Put images into a container, or into a host object.",
    "doctor": "Verify a file completely: decompress it, compare checksums.",
    "check-stages": "Compare the files of one build, and find what a stage lost.",
    "check-kpack": "Check that installed programs find their kpack archives.",
    "targets": "Explain a GPU name, or list all names.",
    "convert": "Convert a container to another format without loss.",
    "wrap": "Make an object that registers images when it is linked.",
    "link-inputs": "Collect the device images of a link line, grouped by target.",
    "remove": "Remove all device code, or selected images, from a file.",
    "replace": "Replace one image, or all device code, of a file.",
    "embed": "Put a finished container into a copy of an object.",
    "map": "Run a program on each image (for example ptxas or nvdisasm).",
    "normalize": "Make builds equal where a field is free: times, temp names.",
    "survey": "Write a table with one row per image of many files.",
    "tool": "Run as a drop-in replacement for cuobjdump, fatbinary, ...",
    "completion": "Print the completion script for bash, zsh or fish.",
    "help": "Show the help of a command, or all commands.",
}

#: The commands of ``fatpack --help``; ``fatpack help commands`` lists all.
MAIN = ("inspect", "check", "explain", "slim", "extract", "report", "diff", "pack")

#: Groups of commands in ``fatpack help commands``.
GROUPS = {
    "Look": ("inspect", "explain", "report", "diff", "targets"),
    "Check": ("check", "check-stages", "check-kpack", "doctor"),
    "Take out": ("extract", "link-inputs"),
    "Make": ("pack", "convert", "wrap"),
    "Edit": ("slim", "split", "remove", "replace", "embed", "map", "normalize"),
    "Many files": ("survey",),
    "Others": ("tool", "completion", "help"),
}

#: A word of other tools → the command that does it here.
SYNONYMS = {
    **dict.fromkeys(("info", "ls", "list", "show", "dump"), "inspect"),
    "verify": "doctor",
    **dict.fromkeys(("strip", "shrink", "prune", "trim"), "slim"),
    **dict.fromkeys(("merge", "link", "bundle", "create"), "pack"),
    **dict.fromkeys(("unpack", "unbundle"), "extract"),
    **dict.fromkeys(("compare", "cmp"), "diff"),
    **dict.fromkeys(("delete", "rm"), "remove"),
    **dict.fromkeys(("strip-nondeterminism", "reproduce"), "normalize"),
}

#: Commands that are one module, or whose module is in another room; any other is the module ``command`` of its folder.
_MODULES = {
    "embed": "fatpack.commands.embed",
    "remove": "fatpack.commands.remove",
    "replace": "fatpack.commands.replace",
    "tool": "fatpack.tools.command",
    "help": "fatpack.main.help",
    "completion": "fatpack.main.completion",
}


def load_command(name: str) -> Command:
    """Import and return one of the commands: none of them pays for another."""
    module = _MODULES.get(name) or f"{__name__}.{name.replace('-', '_')}.command"
    declared: Command = __import__(module, fromlist=["command"]).command
    return declared
