"""Scenes: the control plane (`pycore/serving`) driven by hand, every block of it on show.

    film.py        what a picture shows: Film, Frame, BlockState, Table, TreeNode, Invariant
    toy.py         a model of pure integers whose text hangs on every cell that it reads through its block table
    stage.py       scheduler + toy: add, fork, abort, step; each takes a picture (camera.py) and proves the laws (laws.py)
    script.py      scene (a): events as text;   conversations.py  scene (b): prompts that share prefixes
    waterfall.py   scene (c): speculative decoding, token by token (drafting.py)
    faults.py      scene (d): famous faults brought back, and the law that catches each
    event_file.py  what an engine writes while it serves, read back;   player.py, recorded.py  played on the same stage

Nothing here schedules: the real scheduler does. Nothing is random: same question, same bytes.
"""
