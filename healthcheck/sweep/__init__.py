"""One sweep from an inventory to assessed results: `sweep.sweep` asks the nodes, `assess.assess` judges,
`saved` keeps it.
"""
