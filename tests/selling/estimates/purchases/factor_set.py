"""A set of factors for transactions, as an operator would import it. The numbers are made up."""

from tests.support.world import TESTER
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.selling.estimates.factors.import_rows import import_factors

FACTORS = """\
id,category,activity,unit,kg_co2e_per_unit,well_to_tank_kg_co2e_per_unit,region,year,source,licence
spend-2024/mcc-5411/deu,Merchant category 5411,Grocery stores and supermarkets,EUR,0.35,,DEU,2024,Spend,CC-BY-4.0
spend-2023/mcc-5411/deu,Merchant category 5411,Grocery stores and supermarkets,EUR,0.5,,DEU,2023,Spend,CC-BY-4.0
spend-2024/mcc-5411/wld,Merchant category 5411,Grocery stores and supermarkets,USD,0.4,,WLD,2024,Spend,CC-BY-4.0
spend-2024/mcc-5541/wld,Merchant category 5541,Service stations,USD,1.2,0.3,WLD,2024,Spend,CC-BY-4.0
spend-2024/mcc-7512/deu,Merchant category 7512,Car rental,XPF,0.01,,DEU,2024,Spend,CC-BY-4.0
"""


async def import_transaction_factors(database: Database) -> None:
    async with database.transaction() as tx:
        await import_factors(tx, SheetFile("spend.csv", FACTORS.encode()), by=TESTER.now())
