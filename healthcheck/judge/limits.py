"""How much of one node and of one finding is judged and kept."""

MOST_SUBJECTS = 4096    # members of a collection
MOST_FINDINGS = 200     # of one rule on one node
MOST_LINES = 600        # of a log in one finding, each with at most LONGEST_LINE characters
LONGEST_LINE = 8192
MOST_RECORDS = 2000     # numbers of kernel records in one finding
