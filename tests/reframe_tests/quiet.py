"""Settings of ReFrame that tests load in addition to those of a machine.

ReFrame prepares no messages of its debugging levels with these settings. A dry run would spend
half of its processor time on these messages.
"""

from reframe_tests.logs import LOGGING

site_configuration = {"logging": [{**LOGGING[0], "level": "info"}]}
