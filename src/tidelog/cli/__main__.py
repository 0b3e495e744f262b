"""``python -m tidelog.cli``."""

from __future__ import annotations

import sys

from tidelog.cli import main

sys.exit(main())
