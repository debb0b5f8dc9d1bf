"""Choosing: which images of a file stay for devices and by patterns, what would be lost, and what is refused.

=============  =======================================================================================
``serving``    which images of a container the runtime of a device would take, and may take
``rows``       the images of a file, each in its place, in the words of patterns
``selection``  what stays and what goes, and the containers that speak against it
``losses``     containers left with nothing, or with nothing for devices
``select``     the door: ``select(items, wishes) -> Selection``
``refusal``    what is raised for a selection that loses what is needed
=============  =======================================================================================
"""
