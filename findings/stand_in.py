# SPDX-License-Identifier: Apache-2.0
"""findings/stand_in.py: support.sh's stand_in puts it before a find's packages, as sitecustomize.py, which Python imports at its start.

The variable STAND_INS lists modules that the find's packages import and the find has no use for. They and their submodules are empty:
whatever is asked of one is an empty class, whatever is asked of that is another, and a call gives back a function that it was given (so
that decorators do) or else the class.
"""
import abc
import importlib.abc
import importlib.machinery
import os
import sys
import types


class Empty(abc.ABCMeta):
    def __getattr__(cls, name):
        return empty_of(cls, name)

    def __call__(cls, *args, **options):
        if "is_empty" not in vars(cls):  # a class of the find's packages, derived from an empty one
            return super().__call__(*args, **options)
        return args[0] if len(args) == 1 and not options and callable(args[0]) else cls

    def __getitem__(cls, _key):
        return cls


def empty_of(owner, name):
    if name.startswith("__"):
        raise AttributeError(name)
    made = Empty(name, (), {"is_empty": True})
    setattr(owner, name, made)
    return made


class EmptyModule(types.ModuleType):
    __version__ = "0"

    def __getattr__(self, name):
        return empty_of(self, name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    modules = tuple(os.environ["STAND_INS"].split())

    def find_spec(self, name, _path=None, _target=None):
        if name in self.modules or name.startswith(tuple(f"{module}." for module in self.modules)):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return EmptyModule(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
