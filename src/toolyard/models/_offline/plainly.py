"""Ways of asking whose order hides what is meant, put into the plain order: `how much is honey` is `find honey`."""

import re
from functools import lru_cache

from toolyard.models._offline.amounts import NUMBER, UNITS
from toolyard.models._offline.times import MONTHS

_NAME = "[a-z][a-z -]+"
_NOT_COUNTED = "am|pm|o'clock|days?|hours?|minutes?|weeks?|months?|times|euros?|dollars?|percent"
_DAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|tonight|next week|by the|before the|by noon"


def _ways(*ways: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), said) for pattern, said in ways)


_ENGLISH = _ways(
    (r"^(?:there(?:'s| is| are)|we have|we've got|i have|i've got)? ?no (?:more )?"
     r"(?P<what>[a-z][a-z -]*?)(?: left| any ?more| at home)(?P<rest>(?:[,.;]|\band\b).*)?$",
     r"need \g<what>\g<rest>"),
    (r"^(?:there(?:'s| is| are) )?no more (?P<what>[a-z][a-z -]*?)[,.;]? (?:and )?(?:please )?(?:add|put|get|buy) "
     r"(?:it|them|some)\b.*$", r"need \g<what>"),
    (r"^how(?:'s| is| are) (?P<what>(?:my|our|the) [\w ]+?) (?:looking|doing|going)\W*$", r"show \g<what>"),
    (r"^how much (?:is|does|are|do) (?:everything|all|it all|all (?:of )?(?:it|that|this)|the stuff|things?)"
     r" in (?P<where>(?:my|the|our) [\w ]+?)(?: cost| come to| worth)?\W*$", r"what is in \g<where>?"),
    (r"^what (?:does|do|will) (?P<where>(?:my|the|our) [\w ]+?) (?:come to|add up to|amount to|total)\W*$",
     r"what is in \g<where>?"),
    (r"^(?:did|have) (?:i|we) (?:already )?(?:put|add|added) .+ (?:in|into|to|on) (?P<where>(?:my|the|our)"
     r" [\w ]+?)"
     r"\W*$", r"what is in \g<where>?"),
    (r"^how much (?:stock|inventory) (?:is there|do we have|have we(?: got)?|is left)", "stock statistics"),
    (r"\b(?:pictures?|photos?|images?|cards?) of (?=(?:the|your|some|all)\b)", ""),
    (r"^(?:please )?put (?P<what>(?!.*\bback\b.*\bback\b)[\w ]+?) back\W*$", r"remove \g<what>"),
    (r"^(?P<verb>search|look through) (?P<where>(?:the|my|our) [\w ]+?) for (?=\w)(?P<what>.+?)\W*$",
     r"\g<verb> for \g<what> in \g<where>"),
    (r"^(?:(?:can|could|would|will) you )?(?:please )?tell me (?=how (?:much|many)\b)", ""),
    (rf"^how (?:much|many) (?!of each)(?:(?:{UNITS}) )?(?:of )?(?P<what>[^?]+?) (?:(?:do|did) )?we (?:still"
     rf" )?have(?: left| in stock)?\W*$", r"find \g<what>"),
    (r"^(?:a |an |the )?(?:\w+ )?report (?=(?:titled|called|named|on|about|for)\b)", "create a report "),
    (r"^all (?:of )?(?:the|our|my) (?P<what>[\w ]+?) (?:is|are) gone\W*$", r"need \g<what>"),
    (r"^(?:all )?(?:of )?(?:the|our) (?P<what>[\w ]+?) (?:is|are) (?:all |almost |nearly )*"
     r"(?:used up|running (?:out|low))\W*$", r"need \g<what>"),
    (r"^(?:please |can you |could you )*(?:check|see|find out|tell me|let me know) (?:whether|if) "
     r"(?:(?:we|you)(?: still)?(?: have| sell| got)|there (?:is|are))(?: still)?(?: any| some)?(?: left of)? ",
     "find "),
    (r"^how (?:much|many) (?:of|in|from) each (?P<what>\w+).*$", r"statistics per \g<what>"),
    (r"^it(?:'s| is) (?:\w+ )?(?:dark|bright|cold|hot|warm|chilly) (?=in the\b)", ""),
    (r"\bget (?P<what>(?:the |my )?[\w ]+?) out of (?=(?:my|the|our)\b)", r"remove \g<what> from "),
    (r"(?<=\w) in (?:the|their|its) names?\b", ""),
    (r"\b(?P<verb>add|put|buy|order|get) (?P<what>[^,]+?) twice\b", r"\g<verb> 2 \g<what>"),
    (r"^how many .+ (?:are|do i have) in (?P<where>(?:my|the|our) \w+)\W*$", r"what is in \g<where>?"),
    (r"^(?:show(?: me)?|list) (?:everything|all(?: the)? (?:products|items)) (?:in|from) (?=the\b)", "open "),
    (r"^(?:please )?(?:write|draft|compose)(?: up)? (?=(?:a|an|the) (?:\w+ )?(?:report|task|event|note)\b)",
     "create "),
    (r"^i (?:was |am )?wonder(?:ing)? (?:if|whether) you have\b", "do you have"),
    (r"\bsum (?=of (?:my|the|our)\b)", "total "),
    (r"^\W*(?:(?:i (?:think|guess|believe|suppose)|it (?:looks|seems) like|"
     r"(?:please |can you |could you )?make sure|i was wondering if|i wonder if|by the way|btw|um+|uh+|hm+),? "
     r"(?:that )?)+(?:you (?:could|can) )?", ""),
    (r"\s*\b(?:currently|right now|at the moment|at present)\b(?=.*[?]|.*\w)", ""),
    (rf"^(?P<lead>(?:(?!\b(?:{_DAY})\b).)*?)\b(?:we|i) (?:need|have|ought) to (?:buy|purchase|get|pick up) "
     rf"(?=\w)"
     rf"(?!.*\b(?:(?:by|before|until) )?(?:{_DAY})\b)", r"\g<lead>need "),
    (rf"^(?:please )?give me (?=(?:{NUMBER}|an?|some) (?!\w*\W*(?:report|list|overview|summary|stat)))", "need "),
    (r"^(?P<what>(?!(?:what|the|a|my|our)\b)[a-z][a-z -]+?) prices?\s*\?*$", r"find \g<what>"),
    (r"^how much (?:do|must|will|should) (?:i|we) (?:(?:have|need) to )?(?:pay|owe)\b.*$", "what is the total"),
    (r"^what (?:did|have) (?:i|we) (?:put|add|added|got) (?:in|into|to|on) ", "what is in "),
    (r"\s+[-–—]\s+(?=(?:done|finished|completed?|bought|needed|in progress|in cart|to do)\W*$)", ": "),
    (r"^(?:is|are) there (?:any |some )?\w.* in (?P<where>(?:my|our) \w+(?: \w+)?)\s*\?$",
     r"what is in \g<where>?"),
    (r"^(?:tell me |do you know )?how much (?P<what>(?!(?:is|are|do|does|did|have|we|i)\b).+?) costs?\W*$",
     r"find \g<what>"),
    (r"\b(?:something|anything|stuff) (?:with|like|containing|made of) ", ""),
    (r"^how much (?:money )?(?:went|goes|has gone) (?:to|on|for|into|towards) ", "how much did we spend on "),
    (r"\b(?:almost|nearly|completely|totally|just about|all) (?=out of\b|finished\b)", ""),
    (r"^(?:please )?don't forget (?:about )?(?!to\b|that\b)(?P<what>.+?) when (?:(?:you(?:'re| are)?|we(?:'re| are)?) "
     r"(?:go(?:ing)? )?)?(?:shop(?:ping)?|do(?:ing)? the shopping)\b.*$", r"need \g<what>"),
    (r"\b(?P<verb>remind (?:me|us)) (?:that )?(?:i|we) (?:must|have to|need to|should|ought to)\b", r"\g<verb> to"),
    (r"^(?:please )?book (?:in )?(?=(?:a|an|the|my|our|us|me)\b.*(?:\b(?:at|from) \d|\d:\d\d|\d ?[ap]m\b|noon))",
     "schedule "),
    (r"^(?:we're|we are|i'm|i am) (?:having|throwing|hosting) (?=.*\b(?:at|from) \d|.*\d ?[ap]m)", "schedule "),
    (r"\b(?P<verb>tick|check|cross) (?P<what>(?:\w+ ){1,5}?)off (?:of )?(?=(?:the|my|our)\b)",
     r"\g<verb> off \g<what>on "),
    (rf"^(?P<what>(?:half a dozen|a dozen|a couple of|an?(?= (?:{UNITS}) of)|{NUMBER})\s+"
     rf"(?=(?:{UNITS}) of |more |.* please\W*$)(?!(?:{_NOT_COUNTED}|{MONTHS})\b){_NAME}"
     rf"(?:(?:,| and|, and) (?:{NUMBER}|an?|some)\s+{_NAME})*)(?:,? (?:please|thanks))?[.!]?$", r"need \g<what>"),
    (r"^(?:is|are) (?P<what>(?!there\b|you\b|it\b).+?) (?:still )?"
     r"(?:available|in stock|on sale|left|sold(?: here| out)?|out of stock)\s*\??$", r"find \g<what>"),
    (rf"^how (?:much|expensive) (?:does|do|is|are) (?:an?|one|the) (?:{UNITS}) of (?=\w)", "how much is "),
    (r"^how (?:much|expensive) (?:does|do|is|are) (?P<what>(?!in\b|left\b|there\b|it\b|my\b|our\b).+?)"
     r"(?: cost| sell for)?\s*\??$", r"find \g<what>"),
    (r"^(?:please )?(?:empty|clear)(?: out)? (?P<what>(?:my|the|our) [\w ]+)$", r"remove everything from \g<what>"),
    (r"^what(?:'s| is) (?P<what>[A-Z]{1,5}-?\d{2,})\s*\??$", r"find \g<what>"),
    (r"^how (?:much|many) (?:(?:kg|kilos?|kilograms?|litres?|liters?|units?|bags?|boxes|bottles?|packs?) of )?"
     r"(?P<what>(?!of\b|money\b|is\b|are\b|did\b|do\b|have\b|in\b).+?) "
     r"(?:is|are|do (?:we|you|i)(?: still)? have|have (?:we|you|i)(?: still)?(?: got)?)(?: there)?(?: still)?"
     r"(?: left| available| in stock| remaining| in the warehouse| on hand)*\s*\??$", r"find \g<what>"),
    (r"^what(?:'s| is) the (?:current )?(?:stock|inventory|quantity|amount)(?: level)? (?:of|for) (?P<what>.+)$",
     r"find \g<what>"),
    (r"\b(?P<verb>turn|switch|tick|check|cross|shut)\s+(?P<what>(?:\w+\s+){1,5}?)(?P<way>on|off)\b(?!\s+"
     r"(?:the|my|our)\b)", r"\g<verb> \g<way> \g<what>"),
)  # fmt: skip
_CHINESE = _ways(
    (r"^(?:家里|我们家?|咱们家?)+(?:还|也)?缺少?", "需要"),
    (r"^(?P<what>[^，。]{1,12}?)(?:一共|总共)?有(?:几|哪几|多少)种[？?]?$", r"查找\g<what>"),
    (r"^(?:仓库|库房|店|超市|这|你们这|你们店)[里儿]?(?:还|现在)*有(?P<what>[^没什么哪多几货]{1,12}?)(?:吗"
     r"|么)[？?]?$", r"有没有\g<what>"),
    (r"^(?:请|帮我)*列出(?:所有|全部)的?(?P<what>[^，。所全各]{1,8}?)类的?(?:原料|商品|产品|材料)[。]?$",
     r"查找\g<what>"),
    (r"开(?=[^灯门窗关会家学例年，。][^灯门窗关，。]{0,5}会)", ""),
    (r"里(?=面[粉包条])", "里 "),
    (r"(?:库存|仓库|库房|店)?里面?(?=有没有|有无|是否有)", ""),
    (r"(?:这个|那个|这项|那项|这一)(?=任务|待办|事项|类别|意图|分类)", ""),
    (r"^(?P<what>[^，。各所全]{1,8}?)(?:类别|分类|类)(?:一共|总共|现在|还)*有多少(?:库存)?[？?]?$",
     r"统计\g<what>类库存"),
    (r"^(?:请|帮我|麻烦)*把(?P<what>[^，。]+?)的?(?:库存|数量|信息)?都?(?:查|找)(?:一下|出来|一查)[。]?$",
     r"查找\g<what>"),
    (r"增加(?=一[个条份项]|新的)", "添加"),
    (r"^(?P<which>第[一二三四五六七八九\d]+[个种款项])(?:来|要|加|买|拿)(?P<many>[一二两三四五六七八九十\d]+.)$",
     r"加\g<many>\g<which>"),
    (r"^(?:请|帮我|麻烦)*把(?P<what>[^，。]+?)(?P<verb>显示|展示)(?:出来|一下)?[。]?$", r"显示\g<what>"),
    (r"^(?:请|帮我|麻烦)*把(?P<what>[^，。从]+?)(?P<from>从[^，。]+里)?(?P<verb>拿掉|删掉|去掉|拿走)一"
     r"(?P<unit>[个瓶袋盒包罐])[。]?$", r"\g<verb>1\g<unit>\g<what>"),
    (r"(?<=[个建条份])新(?=意图|任务|活动|日程|报表|事件|待办)", ""),
    (r"^(?:今天|明天|等会儿?|一会儿?)(?:我们?)?要?买", "买"),
    (r"^(?:请|帮我|麻烦)*(?:记一下|记下|记住)[:：，,]?", "提醒我"),
    (r"^(?:请)?给我(?=[一二两三四五六七八九十半\d])", "需要"),
    (r"^(?P<what>[^各所全总，。]{1,8}?)类?的?(?:原料|商品|产品)有(?:哪些|什么)[？?]?$", r"查找\g<what>"),
    (r"^(?P<what>[^，。]{1,12}?)快?(?:要)?(?:用|吃|喝|卖)完了(?:吗|没有?)[？?]?", r"查找\g<what>"),
    (r"^\W*(?:请问|现在|目前|当前|那么?)+[，,]?(?=\S)", ""),
    (r"^(?:请|麻烦)?给我(?=[加来买拿])", ""),
    (r"^(?P<what>[^各所全总类，。]{1,12}?)(?:还|现在)*(?:够不够|够吗|够用吗|够么)[？?]?$", r"查找\g<what>"),
    (r"^(?P<what>[^各所全总类，。]{1,12}?)(?:还|现在)*(?:有|剩下?|余下?)多少(?:库存量?|存货|存量|货)[？?]?$",
     r"查找\g<what>"),
    (r"^(?P<what>[^，。没]{1,12}?)(?:还)?有(?:货|库存|存货)?(?:吗|么|没有)[？?]?$", r"有没有\g<what>"),
    (r"^(?P<what>[^，。]{1,12}?)(?:多少钱|怎么卖)(?:一[块个瓶袋盒包斤份])?[？?]?$", r"查找\g<what>"),
    (r"(?<=[A-Za-z\d]\d)号", ""),
    (r"(?P<when>之前|以前|前)(?:我们?)?(?:要|得|必须|需要)", r"\g<when>提醒我"),
    (r"^(?:我们?|家里|咱们)*(?:已经|快)?没有?(?![空电钱劲]了)(?P<what>[^吗么？?]{1,12}?)了[。！!]?$", r"需要\g<what>"),
    (r"(?<![没还里])有(?P<what>[^没什么哪多几货]{1,12}?)(?:吗|么)[？?]?$", r"有没有\g<what>"),
    (r"(?<=多少)(?:公斤|千克|kg|升|瓶|袋|个|斤|吨|箱|件|盒|包)", ""),
    (r"(?P<verb>查找|查询一?下|查询|查一?下|查一?查|看一?下|看看|搜索|找一?下|查|搜|找)"
     r"(?P<what>(?![一下各所全总类])[^各所全总类，。]{1,12}?)的?(?:库存(?:量|情况|状况)?|数量|存量|余量|价格)$",
     r"\g<verb>\g<what>"),
    (r"^我们?(?:想要(?![查找看去打买付结])|要(?=[一二两三四五六七八九十半\d]))", "需要"),
    (r"^(?P<what>[^各所全总类]{1,12}?)的?(?:库存量?|数量|存量|余量|价格|价钱|售价|编号|代码|单位)"
     r"(?:是|有|还有|还剩|剩|还剩下)?(?:多少|几[^，。]{0,3})[？?]?$", r"查找\g<what>"),
    (r"^(?:请|帮我|麻烦)*(?:清空|把?(?=.+清空))(?P<what>[^，。]+?)(?:清空)?[。！!]?$", r"移除\g<what>里的全部"),
    (r"^(?:家里的?|我们的?)?(?P<what>[^，。]{1,12}?)(?:都|快要?|已经)*(?:(?:吃|喝|用)(?:完|光)|没|没有"
     r"|不够)了[。！!]?$", r"需要\g<what>"),
    (r"^(?:编号|代码)?(?P<what>[A-Za-z]{1,5}-?\d{2,})(?:对应|代表|指)?的?(?:是|为)?(?:什么|哪)[^，。]{0,6}$",
     r"查找\g<what>"),
)  # fmt: skip
_LATIN, _CJK = re.compile("[A-Za-z]"), re.compile("[\u3400-\u9fff]")


@lru_cache(maxsize=1024)
def plainly(text: str) -> str:
    for known, ways in ((_LATIN, _ENGLISH), (_CJK, _CHINESE)):
        if known.search(text):
            for pattern, said in ways:
                text = pattern.sub(said, text)
    return text
