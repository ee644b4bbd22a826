"""Settings beside those of a machine: what ReFrame would log only if asked is not even prepared.

Half of the processor time of a dry run goes there.
"""

from reframe_tests.logs import LOGGING

site_configuration = {"logging": [{**LOGGING[0], "level": "info"}]}
