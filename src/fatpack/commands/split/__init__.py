"""The command ``split``: one release with code for many devices becomes one package for each kind of device.

::

    fat packages ─► serving: the units of each library ─► labels: devices, properties, reasons
                                                                │
        each library ─► plan: slimmed for all labels at once ◄──┘
                              └─► kinds: packages under new names, and the index of labels
                              └─► serving: does what an installer takes run wherever the fat package runs?

================  ==================================================================================================
``command``       the command line; it makes a request
``request``       the request, its checks, ``[tool.fatpack.split]``, and the function of the library
``serving``       what a device gets of a library, by the rules of ``explain``
``labels``        labels by rule or as given, their devices and properties, and why one is refused
``variants``      ``variant.json`` and the index file: schema versions, documents made and read
``plan``          the interface of a kind of package; libraries planned for all labels, in parallel processes
``wheels``        variant wheels
``conda``         conda packages, fat and written
``conda_ranges``  labels of conda packages: ranges of compute capabilities
``kinds``         the kind of package for a file
``run``           the packages of a request, proved together, and written or only planned
``prove``         the proof of what was written, from the files alone
``model``         the result, which is also the JSON document
``text``          the table of labels, and of what each device gets
================  ==================================================================================================
"""
