#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/nixl_error_is_raised.sh: NIXL's Python does not say "ERR" of a transfer that has failed: it raises.
# `check_xfer_state` is documented to return "DONE", "PROC" or "ERR". Who waits as that says has no handler for the error of a read beyond a
# file's end: it leaves the loop that waits for all the other transfers, whose memory is written meanwhile.
. "$(dirname "$0")/support.sh"
need nixl-cu13==1.5.1 numpy==2.4.6
expect "within the file: DONE; beyond its end: ERR"
see "within the file: DONE; beyond its end: raised nixlBackendError" <<'PYTHON'
import logging
import os

import numpy as np
from nixl_cu13 import nixl_agent, nixl_agent_config

logging.disable(logging.CRITICAL)
BYTES = 4096
with open("pages", "wb") as file:
    file.write(bytes(BYTES))
agent = nixl_agent("agent", nixl_agent_config(backends=["POSIX"]))
memory = np.zeros(BYTES, np.uint8)
fd = os.open("pages", os.O_RDONLY)
agent.register_memory([(memory.ctypes.data, BYTES, 0, "")], "DRAM")
agent.register_memory([(0, 2 * BYTES, fd, "")], "FILE")


def state_of_read(offset):
    here = agent.get_xfer_descs([(memory.ctypes.data, BYTES, 0)], "DRAM")
    handle = agent.initialize_xfer("READ", here, agent.get_xfer_descs([(offset, BYTES, fd)], "FILE"), "agent")
    try:
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
    except Exception as error:  # of any type: none is documented
        return f"raised {type(error).__name__}"
    return state


print(f"within the file: {state_of_read(0)}; beyond its end: {state_of_read(BYTES // 2)}")
PYTHON
