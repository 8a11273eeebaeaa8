"""As guarded_psycopg.py, by SQLAlchemy, at each commit: guarded_sqlalchemy.py postgres:…"""
import sys

import dlock
from sqlalchemy import BigInteger, Column, Text, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, declarative_base

URL, NAME = sys.argv[1], 'guarded-sqlalchemy'
Base = declarative_base()


class Stock(Base):
    __tablename__ = 'guarded_stock'
    item = Column(Text, primary_key=True)
    pieces = Column(BigInteger, nullable=False)


# doc: event
@event.listens_for(Session, 'before_commit')
def check_tokens(session):
    """What a session says it holds is checked in the transaction that writes."""
    for name, token in session.info.get('holds', {}).items():
        session.execute(text('SELECT dlock.check(:name, :token)'), {'name': name, 'token': token})


def is_stale(error):
    return error.orig.pgcode == 'DL001'  # psycopg 3: error.orig.sqlstate
# end: event


# doc: session
def write(engine, token, pieces):
    with Session(engine, info={'holds': {NAME: token}}) as session:
        session.get(Stock, 'bolt').pieces += pieces
        session.commit()
# end: session


engine = create_engine(URL.replace('postgres:', 'postgresql+psycopg2:', 1))
Base.metadata.create_all(engine)
with Session(engine) as first:
    first.add(Stock(item='bolt', pieces=0))
    first.commit()
with dlock.Client(URL, ttl=1, renew='off') as slow, dlock.Client(URL) as quick:
    late = slow.lock(NAME).hold()
    with quick.lock(NAME).hold() as held:  # when the first one's lease is over
        write(engine, held.token, 10)
    try:
        write(engine, late.token, 5)
        print('a stale write came through')
    except DBAPIError as error:
        print('refused with', error.orig.pgcode) if is_stale(error) else print(error)
with Session(engine) as last:
    print('pieces:', last.get(Stock, 'bolt').pieces)
Base.metadata.drop_all(engine)
