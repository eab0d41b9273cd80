"""仓库的原料目录：一个 SQLite 文件，首次使用时建立。每次操作使用自己的连接，可以在任意线程中调用。"""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolyard import ToolError

LOCK_TIMEOUT_S = 10.0
TABLES = (
    "CREATE TABLE materials (id TEXT PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL,"
    " quantity INTEGER NOT NULL, unit TEXT NOT NULL)",
    "CREATE TABLE intents (name TEXT PRIMARY KEY, description TEXT NOT NULL, created_by TEXT NOT NULL)",
)
STOCK = (
    ("M001", "高筋面粉", "面粉", 100, "kg"),
    ("M002", "低筋面粉", "面粉", 50, "kg"),
    ("M003", "白砂糖", "糖", 80, "kg"),
    ("M004", "红糖", "糖", 20, "kg"),
    ("M005", "无盐黄油", "油脂", 35, "kg"),
    ("M006", "鲜牛奶", "乳品", 60, "L"),
    ("M007", "干酵母", "添加剂", 5, "kg"),
)
COLUMNS = "id, name, category, quantity, unit"


@dataclass(frozen=True, slots=True)
class Material:
    id: str
    name: str
    category: str
    quantity: int
    unit: str


@dataclass(frozen=True, slots=True)
class Warehouse:
    path: Path

    def search(self, keyword: str) -> Sequence[Material]:
        """名称、类别或编号中含有关键词的原料。"""
        with self._transaction() as file:
            rows = file.execute(
                f"SELECT {COLUMNS} FROM materials WHERE instr(name || ' ' || category || ' ' || id, ?) ORDER BY id",
                (keyword,),
            ).fetchall()
        return [Material(*row) for row in rows]

    def list_materials(self) -> Sequence[Material]:
        with self._transaction() as file:
            rows = file.execute(f"SELECT {COLUMNS} FROM materials ORDER BY id").fetchall()
        return [Material(*row) for row in rows]

    def create_intent(self, name: str, description: str, created_by: str) -> None:
        with self._transaction() as file:
            existing = file.execute("SELECT 1 FROM intents WHERE name = ?", (name,)).fetchone()
            if existing:
                raise ToolError(f"意图“{name}”已经存在", "conflict", {"name": name})
            file.execute("INSERT INTO intents VALUES (?, ?, ?)", (name, description, created_by))

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S, isolation_level=None)) as file:
                file.execute("BEGIN IMMEDIATE")
                if file.execute("PRAGMA user_version").fetchone() == (0,):
                    _create_tables(file)
                yield file
                file.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise ToolError("数据库连接失败", "unavailable", {"reason": str(error)}) from error


def _create_tables(file: sqlite3.Connection) -> None:
    for table in TABLES:
        file.execute(table)
    file.executemany("INSERT INTO materials VALUES (?, ?, ?, ?, ?)", STOCK)
    file.execute("PRAGMA user_version = 1")
