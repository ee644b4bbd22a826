"""What commands do on a cluster.

Inspects nodes in a job, tries writes, writes the two files of a new machine, starts writers beside
an application, and writes scripts for remedies that need root.
"""
