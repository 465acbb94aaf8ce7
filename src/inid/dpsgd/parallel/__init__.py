"""Training by several processes.

distributed         every process clips its own examples, and noise is drawn once
dataset_digest      whether processes hold the same dataset
sharded_parameters  how to tell parameters that live in pieces
sharding            clipped sums and noise of such parameters
"""
