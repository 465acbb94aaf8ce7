"""The commands: the options, help and examples of each, and what it does."""

from inid.cli.commands.demo import DEMO
from inid.cli.commands.ledger import ADOPT, BACKUP, CREATE, HISTORY, SHOW
from inid.cli.commands.plan import ACCURACY, COMPARE, PLAN
from inid.cli.commands.record import RECORD
from inid.cli.commands.release import RELEASE, ROWS
from inid.cli.commands.stream import OPEN, RELEASE_PERIOD, SHOW_STREAM
from inid.cli.commands.studio import STUDIO
from inid.cli.commands.verify import VERIFY

COMMANDS = (PLAN, RELEASE, COMPARE, ACCURACY, VERIFY, RECORD, ROWS, DEMO, STUDIO)
LEDGER_COMMANDS = (CREATE, SHOW, HISTORY, BACKUP, ADOPT)
STREAM_COMMANDS = (OPEN, RELEASE_PERIOD, SHOW_STREAM)
