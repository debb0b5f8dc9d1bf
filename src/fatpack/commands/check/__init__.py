"""The command ``check``: files checked against a policy. Rows and rules in, plain records out.

==========  ==================================================================================
``kpack/``  whether the programs of a folder find their device code in the kpack archives there
``policy/`` checks that files, folders and packages have the required device code, and no forbidden one
``stages/`` what a later stage of one unit's pipeline lost of what an earlier one has
==========  ==================================================================================

Facts come from formats, hosts and runtimes, rules from :mod:`fatpack.targets`. A violation is a finding; a report
renders the rest.
"""

from __future__ import annotations
